"""What only a real machine says: deletion by age as it would have gone, a device that dies, a container
without credentials."""

import os
import subprocess
from pathlib import Path

import pytest

from runbooks.core.reading import Known
from runbooks.core.verdict import State
from tasks.diagnostics.s3_answers import looked_in
from tests.support.ckpt_fleet import Shelf, context, folder, look
from tests.support.smallfs import read_only, tmpfs
from tests.tasks.checkpoint.test_local import break_it


def test_deletion_by_age_deletes_the_good_one(shelf: Shelf, tmp_path: Path) -> None:
    """The command that was in use, run for real: the three corrupt ones stay, the good one goes."""
    good, *bad = shelf.put(tmp_path, 100, 200, 300, 400)
    for n, path in enumerate((good, *bad)):
        if path != good:
            break_it(path)
        os.utime(path, (1e9 + n, 1e9 + n))
    _, got = look(context(folder("nvme", tmp_path)))
    assert got.headline.startswith("Resume from step 100"), "ours knows which is good"
    assert not [s for p in got.plans for s in p.steps if s.kind == "prune-checkpoints"]
    assert any("tail -n +4" in m for m in got.must_not)
    subprocess.run("ls -t *.pt | tail -n +4 | xargs rm", shell=True, cwd=tmp_path, check=True)  # noqa: S602
    assert sorted(tmp_path.glob("*.pt")) == sorted(bad)
    _, got = look(context(folder("nvme", tmp_path)))
    assert got.headline.startswith("No checkpoint that can be trusted")


def test_a_dying_device_in_the_kernel_log(shelf: Shelf, tmp_path: Path) -> None:
    """A line of the real kernel log about the device that carries the tier; other devices' lines are no matter."""
    with tmpfs(tmp_path / "n", "8m") as path:
        shelf.put(path, 100)
        seen, _ = look(context(folder("nvme", path)))
        assert isinstance(seen.tiers[0].space, Known)
        disk = "nvme9n1"
        with Path("/dev/kmsg").open("w") as log:
            log.write(f"<3>blk_update_request: I/O error, dev {disk}, sector 12345 (gpu-runbooks test)\n")
        seen, got = look(context(folder("nvme", path)))
        assert isinstance(seen.kernel, Known)
        assert any(disk in line for line in seen.kernel.value)
        assert "dying-device" not in {c.slug for c in got.causes}, "it is not the device below this tier"
        read_only(path)
        _, got = look(context(folder("nvme", path)))
        assert got.state is State.SICK
        assert {c.slug for c in got.causes} == {"read-only"}


def test_the_hop_limit_is_named_in_a_container(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from runbooks.core.checkpoints import Tier

    tier = Tier(name="s3", kind="s3", bucket="b", prefix="p")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    assert any("hop limit must be 2" in x for x in looked_in(tier))
