"""`gpu-runbooks run host-limits` over a real sshd, through the command line: a real limit is named, a stranger's node is not."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deployments.test_cli import call
from tests.support.sshd import Sshd
from tests.tasks.host.test_host_limits import FILES, living

pytestmark = pytest.mark.soak


def asked(folder: Path, sshd: Sshd, *words: str) -> "subprocess.CompletedProcess[str]":
    """The command on that node."""
    node = sshd.node(connect_timeout_s=2).model_dump(mode="json", exclude_defaults=True)
    (folder / "fleet.yaml").write_text(yaml.safe_dump({"nodes": [node]}))
    return call("run", "host-limits", "far", "--fleet", str(folder / "fleet.yaml"), "--no-server", "--out", str(folder / "out"), *words)


def causes(found: dict[str, Any]) -> list[str]:
    """Slugs of a report's causes."""
    return [c["slug"] for c in found["diagnosis"]["causes"]]


def test_a_process_at_its_limit_is_named_over_ssh(folder: Path) -> None:
    sshd = Sshd(folder, "far").start()
    try:
        with living(sys.executable, "-c", FILES) as pid:
            done = asked(folder, sshd, "--json")
        report = json.loads(done.stdout)
        assert causes(report) == ["fd-limit"]
        assert f"{pid}" in json.dumps(report["diagnosis"]["causes"])
        assert report["acts"] == []
    finally:
        sshd.stop()


def test_a_node_that_is_not_reached_is_not_judged(folder: Path) -> None:
    sshd = Sshd(folder, "far")
    done = asked(folder, sshd)
    assert done.returncode == 3, done.stdout
    assert "Nothing of far was read" in done.stdout
    assert "near a limit" not in done.stdout
