"""What is saved outlives the process's own folder: a worker runs each flow in a temporary folder and removes it."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

from tasks.remote.changing import FOLDER_ENV

ROOT = Path(__file__).parents[2]
SAVES = {  # saved by the test below from a folder that is gone
    "approvers/secrets.py", "remote/changing.py", "report_store.py", "clients/pod_trust.py",
}  # fmt: skip
ONLY_READS = {  # or only names a file that a person or ssh keeps
    "checkpoint/s3_answers.py", "notify/address.py", "ssh/act_keys.py", "ssh/host_key.py", "ssh/key.py",
    "transport/connect.py", "transport/keys.py", "transport/open.py", "clients/logs/places.py",
}  # fmt: skip
SAVING = """
import json, os, tempfile
gone = tempfile.mkdtemp()
os.chdir(gone)
os.rmdir(gone)
from runbooks.core.orchestrator_config import PodSsh
from runbooks.core.render import render
from tasks.approvers.secrets import approvers_file, new_secret, put_approver
from tasks.remote.changing import _place
from tasks.report_store import reports_root, save
from tasks.clients.pod_trust import PUBLISHED, Trust, record_key, trust_path
from tasks.transport.local import LocalHost
from tests.core.samples import report
saved = save(report(), render(report()), reports_root("reports"))
record_key(PodSsh(), "pod-1", Trust("ssh-ed25519 AAAA", PUBLISHED, "now", "m"))
put_approver("ana", new_secret())
os.geteuid = lambda: 1000  # root's locks lie in /run
locks = _place(LocalHost("here"), "node-a")["folder"]
print(json.dumps([str(saved.record), str(saved.markdown), str(trust_path(PodSsh())), str(approvers_file()), locks]))
"""


def test_every_place_that_resolves_such_a_path_is_known() -> None:
    """A new one is saved by the test below, or only reads."""
    found = set()
    for path in (ROOT / "tasks").rglob("*.py"):
        taken = [n for n in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(n, ast.ImportFrom)]
        if any(n.module == "tasks.installation" and "lasting" in [a.name for a in n.names] for n in taken):
            found.add(str(path.relative_to(ROOT / "tasks")))
    assert found == SAVES | ONLY_READS


def test_what_is_saved_from_a_folder_that_is_gone_is_there_afterwards(tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": str(ROOT), "GPU_RUNBOOKS_HOME": str(tmp_path / "state"), "HOME": str(tmp_path)}
    for name in ("GPU_RUNBOOKS_REPORTS", "GPU_RUNBOOKS_APPROVERS", FOLDER_ENV):
        env.pop(name, None)
    done = subprocess.run([sys.executable, "-c", SAVING], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    record, page, trust, approvers, locks = map(Path, json.loads(done.stdout.splitlines()[-1]))
    assert all(p.is_relative_to(tmp_path / "state") for p in (record, page, trust, approvers, locks))
    assert json.loads(record.read_text())["id"]
    assert page.read_text().startswith("# ")
    assert "ana" in json.loads(approvers.read_text())
    assert "pod-1" in json.loads(trust.read_text())
