"""Host keys of pods by pod id: pinned, published by the pod's start script, or first seen. Another key is refused."""

import fcntl
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runbooks.core.fleet import KeySource, Node
from runbooks.core.orchestrator_config import Orchestrator, PodSsh
from runbooks.parsers.runpod import Pod
from tasks.installation import lasting

PINNED, PUBLISHED, FIRST_SEEN = "pinned", "published", "first-seen"


@dataclass(frozen=True)
class Trust:
    """What is known of a pod's host key. `how`: who vouches for it."""

    key: str = ""  # "ssh-ed25519 AAAA…"; "": none is known
    how: str = ""
    since: str = ""
    machine: str = ""


def trust_path(config: PodSsh) -> Path:
    """The file; a relative one lies in the state folder."""
    return lasting(config.trust_file)


def trust_of(config: PodSsh, pod_id: str) -> Trust:
    """The key of that pod id: the fleet file's, else the recorded one. Raises ValueError for a damaged file."""
    if pod_id in config.host_keys:
        return Trust(" ".join(config.host_keys[pod_id].split()[:2]), PINNED)
    found = _read(trust_path(config)).get(pod_id, {})
    return Trust(
        str(found.get("key", "")),
        str(found.get("trust", FIRST_SEEN)) if found.get("key") else "",
        str(found.get("first_seen", "")),
        str(found.get("machine", "")),
    )


def record_key(config: PodSsh, pod_id: str, trust: Trust) -> Trust:
    """Record a pod id's first key, or that the recorded one is published by now. Another recorded key stays."""
    path = trust_path(config)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with path.with_suffix(".lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        known = _read(path)
        old = known.get(pod_id)
        if old and (old.get("key") != trust.key or trust.how != PUBLISHED):
            return trust_of(config, pod_id)
        known[pod_id] = {
            "key": trust.key,
            "trust": trust.how,
            "machine": old["machine"] if old else trust.machine,
            "first_seen": old["first_seen"] if old else trust.since,
        }
        scratch = path.with_suffix(".new")
        scratch.write_text(json.dumps(known, indent=1, sort_keys=True), encoding="utf-8")
        scratch.chmod(0o600)
        scratch.replace(path)
    return trust_of(config, pod_id)


def _read(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    if not isinstance(data, dict):
        raise ValueError(f"{path} is no record of host keys")
    return data


def pod_node(config: Orchestrator, pod: Pod, key: str = "") -> Node:
    """The pod as a node. Without a recorded key no host key is accepted."""
    return Node(
        name=pod.id, host=pod.ip, port=pod.ssh_port or 22, user=config.ssh.user, key=KeySource(env=config.ssh.key_env),
        host_key=key or None, known_hosts="/dev/null", connect_timeout_s=5,
    )  # fmt: skip
