"""Host keys of pods by pod id: recorded when first seen, refused when another key is shown for that id."""

import fcntl
import json
import os
from pathlib import Path
from typing import Any

from runbooks.core.orchestrator_config import PodSsh


def trust_path(config: PodSsh) -> Path:
    """The file; a relative one lies in the state folder."""
    path = Path(config.trust_file).expanduser()
    return (
        path
        if path.is_absolute()
        else Path(os.environ.get("GPU_RUNBOOKS_HOME") or "~/.gpu-runbooks").expanduser() / path
    )


def recorded_key(config: PodSsh, pod_id: str) -> str:
    """`ssh-ed25519 AAAA…` recorded for that pod id; "" when none is. Raises ValueError for a damaged file."""
    return str(_read(trust_path(config)).get(pod_id, {}).get("key", ""))


def record_key(config: PodSsh, pod_id: str, key: str, machine: str, at: str) -> bool:
    """Record the first key of a pod id. False: another one is recorded, and stays."""
    path = trust_path(config)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with path.with_suffix(".lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        known = _read(path)
        if pod_id in known:
            return bool(known[pod_id].get("key") == key)
        known[pod_id] = {"key": key, "machine": machine, "first_seen": at}
        scratch = path.with_suffix(".new")
        scratch.write_text(json.dumps(known, indent=1, sort_keys=True), encoding="utf-8")
        scratch.chmod(0o600)
        scratch.replace(path)
    return True


def _read(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    if not isinstance(data, dict):
        raise ValueError(f"{path} is no record of host keys")
    return data
