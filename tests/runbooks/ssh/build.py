"""Builds evidence from a situation: what it names is laid over a log-in that works."""

from typing import Any

from runbooks.core.knowledge import load_runbook
from runbooks.core.verdict import Diagnosis
from runbooks.ssh.diagnose import Limits, diagnose
from runbooks.ssh.evidence import Evidence

MINE, OTHER = "SHA256:mine", "SHA256:other"
KEY = {
    "source": "key file /k", "place": "/k", "mode": 0o600, "ours": True, "identity": "1:2:3", "openssh_reads": True,
    "library_reads": True, "fingerprint": MINE, "type": "ssh-ed25519", "bits": 256,
    "shape": {"format": "openssh", "type": "ssh-ed25519", "bits": 256, "fingerprint": MINE},
}  # fmt: skip
WIRE = {
    "host": "10.0.0.1", "port": 22, "user": "op", "stage": "done", "addresses": ["10.0.0.1"], "tcp": "open",
    "banner": "SSH-2.0-OpenSSH_9.2", "methods": ["publickey"], "auth": "accepted", "offered": [MINE], "connections": 2,
    "host_key": {"fact": "trusted", "detail": "ssh-ed25519 SHA256:h", "type": "ssh-ed25519", "fingerprint": "SHA256:h"},
}  # fmt: skip
SETTINGS = {
    "strictmodes": "yes",
    "usepam": "no",
    "permitrootlogin": "prohibit-password",
    "authorizedkeysfile": ".ssh/authorized_keys",
}
FAR = {
    "way": "on here", "host": "n", "sshd_runs": True, "user_exists": True, "uid": 1000, "gid": 1000, "home": "/home/op",
    "shell": "/bin/sh", "locked": False, "settings": SETTINGS,
    "path": [{"path": p, "exists": True, "uid": 1000, "gid": 1000, "mode": m, "device": 1, "inode": i}
             for i, (p, m) in enumerate((("/home/op/.ssh/authorized_keys", 0o600), ("/home/op/.ssh", 0o700), ("/home/op", 0o755)))],
    "files": [{"path": "/home/op/.ssh/authorized_keys", "exists": True,
               "entry": {"path": "/home/op/.ssh/authorized_keys", "exists": True, "inode": 1},
               "lines": [{"line": 1, "type": "ssh-ed25519", "fingerprint": MINE}]}],
}  # fmt: skip


def known(base: dict[str, Any], over: Any) -> dict[str, Any]:
    """A reading: the base with `over` on it; {kind: …} stands for itself; null is nothing of the kind."""
    if over is None:
        return {"kind": "absent", "proof": "none here"}
    if "kind" in over:
        return dict(over)
    return {"kind": "known", "value": merged(base, over)}


def merged(base: Any, over: Any) -> Any:
    """Mappings are laid over each other, everything else replaces."""
    if isinstance(base, dict) and isinstance(over, dict):
        return base | {k: merged(base.get(k), v) for k, v in over.items()}
    return over


def judge(given: dict[str, Any]) -> Diagnosis:
    """The diagnosis of one situation."""
    return diagnose(evidence(given), Limits.model_validate(load_runbook("ssh-auth-failure").limit_values()))


def evidence(given: dict[str, Any]) -> Evidence:
    """The evidence of one situation."""
    wire = merged(WIRE, given.get("wire") or {})
    refused = wire["auth"] == "refused"
    far = FAR | {"settings": {}} if given.get("settings_unread") else FAR
    data = {
        "node": "n", "taken_at": "2026-01-01T12:00:00Z", "user": wire["user"], "host": wire["host"], "port": 22,
        "hands_off": given.get("hands_off", False), "alike": given.get("alike", []),
        "key": known(KEY, given.get("key", {})),
        "configured_public": known({"format": "public", "type": "ssh-ed25519", "fingerprint": MINE}, given.get("public", {})),
        "public_line": "" if given.get("public", {}) is None else "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIMine",
        "agent": known({}, None) if "agent" not in given else {"kind": "known", "value": given["agent"]},
        "client": {"kind": "known", "value": given.get("client", {})},
        "wire": given.get("wire_unknown", {"kind": "known", "value": wire}),
        "far": known(far, given["far"]) if "far" in given else known(far, {} if refused else None),
    }  # fmt: skip
    return Evidence.model_validate(data)
