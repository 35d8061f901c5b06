"""Two clusters on one machine: the workers of the other one are no activity of this one's node."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tasks.ray.probes.ray_node import activity, of_another

SPIN = "import time\nend = time.time() + 20\nwhile time.time() < end: pass"


@pytest.fixture
def workers(tmp_path: Path) -> "Iterator[dict[str, subprocess.Popen[bytes]]]":
    """At work: one of each of two clusters, and one whose cluster is not known."""
    made = {}
    for name in ("mine", "other"):
        (tmp_path / name / "session_1/logs").mkdir(parents=True)
        with (tmp_path / name / "session_1/logs/worker-aa-01-1.out").open("w") as out:
            made[name] = subprocess.Popen(["ray::Engine.run", "-c", SPIN], executable=sys.executable, stdout=out, stderr=out)
    made["unknown"] = subprocess.Popen(["ray::Engine.run", "-c", SPIN], executable=sys.executable, stdout=subprocess.DEVNULL)
    yield made
    for process in made.values():
        process.kill()
        process.wait()


def test_only_the_workers_of_this_cluster_count(workers: "dict[str, subprocess.Popen[bytes]]", tmp_path: Path) -> None:
    seen = {row["pid"]: row for row in activity(1.0, str(tmp_path / "mine"))}
    assert seen[workers["mine"].pid]["cpu"] > 0
    assert workers["unknown"].pid in seen, "what may be this cluster's counts as its own"
    assert workers["other"].pid not in seen


def test_a_temp_folder_behind_a_link_is_the_same(workers: "dict[str, subprocess.Popen[bytes]]", tmp_path: Path) -> None:
    (tmp_path / "linked").symlink_to(tmp_path / "mine")
    assert not of_another(workers["mine"].pid, str(tmp_path / "linked"))
