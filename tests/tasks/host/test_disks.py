"""A machine's own disks and its clock: a real file system filled to the brim, the kernel's table of mounts, and SMART's words."""

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from runbooks.core.knowledge import load_runbook
from runbooks.core.reading import Absent, Known
from runbooks.host.diagnose import Limits, diagnose
from runbooks.host.evidence import Evidence, Gauge
from tasks.host.probes import host_disks
from tests.support import smallfs
from tests.tasks.host.test_host_limits import context

LIMITS = Limits(**load_runbook("host-limits").limit_values())
TABLE = """\
24 1 254:0 / / rw,relatime - ext4 /dev/vda1 rw,discard
25 24 254:0 /var/lib/docker /var/lib/docker rw,relatime - ext4 /dev/vda1 rw,discard
26 24 8:17 / /ckpt rw,relatime - ext4 /dev/sdb1 ro,errors=remount-ro
27 24 8:33 / /cold ro,relatime - xfs /dev/sdc1 ro
28 24 8:49 / /data\\040new rw,relatime - xfs /dev/sdd1 rw
29 24 0:50 / /mnt/nfs rw,relatime - nfs4 server:/x rw
30 24 7:0 / /snap/core rw,relatime - ext4 /dev/loop0 rw
31 24 0:99 / /var/lib/docker/overlay2/x/merged rw - overlay overlay rw
"""


def told(path: str, used: int, limit: int, of: str = "bytes") -> list[str]:
    """Slugs of what is judged of that one file system."""
    gauge = Gauge(subject=path, of=of, used=used, limit=limit, setting="x")
    seen = Evidence(node="a", taken_at=datetime(2026, 5, 1, tzinfo=UTC), disks=Known[tuple[Gauge, ...]](value=(gauge,)))
    return [c.slug for c in diagnose(seen, LIMITS).causes]


def test_a_file_system_that_is_really_full_is_found(tmp_path: Path) -> None:
    """Root may still write: what counts is what ordinary users may."""
    with smallfs.ext4(tmp_path) as place:
        row = {"path": str(place), "kind": "ext4", "device": "/dev/x", "mount": ["rw"], "super": ["rw"]}
        before = host_disks.full([row], print)[0]
        assert told(str(place), before["used"], before["limit"]) == []
        (place / "fill").write_bytes(bytes(before["limit"] - before["used"]))
        os.sync()
        after = host_disks.full([row], print)[0]
        (place / "root").write_bytes(bytes(1 << 16))
        assert told(str(place), after["used"], after["limit"]) == ["file-system-full"]


def test_the_table_of_mounts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each file system once; network ones, layers and images are not asked; read-only on purpose is no fault."""
    monkeypatch.setattr(host_disks, "read", lambda path, _most=0: TABLE if "mountinfo" in path else "3\n" if "vda1" in path else None)
    rows = host_disks.mounts()
    assert [m["path"] for m in rows] == ["/", "/ckpt", "/cold", "/data new"]
    assert host_disks.failed(rows) == [
        {"subject": "/", "said": "/dev/vda1 (ext4) has counted 3 errors since it was last checked"},
        {"subject": "/ckpt", "said": "/dev/sdb1 (ext4) is mounted to be written and has become read-only"},
    ]


@pytest.mark.parametrize(("passed", "bad"), [(False, ["/dev/sda"]), (True, []), (None, [])])
def test_what_a_disk_says_of_itself(passed: bool | None, bad: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tool = tmp_path / "smartctl"
    said: dict[str, Any] = {"smart_status": {"passed": passed}} if passed is not None else {"smartctl": {"exit_status": 2}}
    tool.write_text(f"#!/bin/sh\ncat <<'X'\n{json.dumps(said)}\nX\nexit {0 if passed else 8}\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr("tasks.host.probes.host_disks.glob.glob", lambda _pattern: ["/sys/block/sda", "/sys/block/loop0"])
    monkeypatch.setattr("tasks.host.probes.host_disks.os.path.exists", lambda _path: True)
    got = host_disks.smart()
    assert [b["subject"] for b in got["bad"]] == bad
    assert got["asked"] == (passed is not None)
    assert bool(got["why"]) == (passed is None)


def test_this_machine_is_read_whole() -> None:
    seen = gather_here()
    assert isinstance(seen.disks, Known)
    assert "/" in {g.subject for g in seen.disks.value}
    assert {g.of for g in seen.disks.value} <= {"bytes", "inodes"}
    assert isinstance(seen.keeper, Known | Absent)
    assert isinstance(seen.smart, Known | Absent)
    assert Evidence.model_validate_json(seen.model_dump_json()) == seen


def gather_here() -> Evidence:
    from tasks.host.read import gather_host_limits
    from tasks.transport.local import LocalHost

    return gather_host_limits(context(LocalHost("a")))
