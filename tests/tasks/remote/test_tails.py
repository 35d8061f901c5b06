"""The end of a log begins with a whole line: half of a secret would not be known for one."""

import importlib
from pathlib import Path

import pytest

from runbooks.core.redact import Redactor
from tasks.remote.program import probe_module
from tests.support.planted import planted

R = Redactor(b"0123456789abcdef-test")
SIZE = 262_144


def ends(path: Path) -> dict[str, str]:
    """What each probe that reads the end of a log gives back."""
    container, ray, pod = (
        importlib.import_module(probe_module(n)) for n in ("container_host", "ray_node", "pod_inside")
    )
    far = importlib.import_module("tasks.ssh.probes.ssh_far_side")
    setattr(far, "TAIL", SIZE)  # noqa: B010
    progress = importlib.import_module("tasks.gpu.probes.progress")
    return {
        "container": container.tail(str(path), SIZE),
        "ray": ray.last_bytes(str(path), SIZE),
        "pod": "\n".join(pod.tail(str(path), 10**9)["lines"]),
        "progress": "\n".join(progress.last_lines(str(path), SIZE, 10**9)),
        "far side": far.log_text({"path": str(path), "size": 0}),
    }


@pytest.mark.parametrize("cut", [5, 12, 20, 40])
def test_a_secret_that_the_cut_goes_through_is_left_out(tmp_path: Path, cut: int) -> None:
    secret = planted(5)["huggingface"]
    line = f"INFO using {secret.text}\n"
    log = tmp_path / "job.log"
    log.write_text(line + "x" * (SIZE - cut - 9) + "\nlast one\n")
    for name, text in ends(log).items():
        assert not secret.leaks_into(R.text(text)), name
        assert secret.text[-6:] not in R.text(text), name
        assert text.endswith("last one\n") or text.endswith("last one"), name


def test_a_short_log_is_whole(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_text("first\nlast one\n")
    assert {text.strip() for text in ends(log).values()} == {"first\nlast one"}
