"""The cgroups of a process in both versions, from a made /proc and /sys: the limit above it holds it as well."""

from typing import Any

import pytest

from tasks.host.probes import host_limits as probe

ROOT = "/sys/fs/cgroup"
V2 = {
    "/proc/7/cgroup": "0::/system.slice/job.scope\n",
    f"{ROOT}/system.slice/job.scope/pids.current": "12\n",
    f"{ROOT}/system.slice/job.scope/pids.max": "max\n",
    f"{ROOT}/system.slice/pids.current": "511\n",
    f"{ROOT}/system.slice/pids.max": "512\n",
    f"{ROOT}/system.slice/pids.events": "max 3\n",
}
V1 = {
    "/proc/7/cgroup": "8:pids:/docker/ab\n4:memory:/docker/ab\n0::/\n",
    f"{ROOT}/pids/docker/ab/pids.current": "64\n",
    f"{ROOT}/pids/docker/ab/pids.max": "64\n",
}
ELSEWHERE = {"/proc/7/cgroup": "0::/../other\n"}  # as seen from another cgroup namespace


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (V2, [(f"cgroup {ROOT}/system.slice", 511, 512, 3)]),
        (V1, [(f"cgroup {ROOT}/pids/docker/ab", 64, 64, 0)]),
        (ELSEWHERE, []),
    ],
)
def test_groups(files: dict[str, str], expected: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "read", lambda path, *_: files.get(path))
    monkeypatch.setattr("os.path.isdir", lambda _path: True)
    out: dict[str, list[Any]] = {"threads": []}
    probe.of_groups([7], out)
    assert [(g["subject"], g["used"], g["limit"], g["refused"]) for g in out["threads"]] == expected
