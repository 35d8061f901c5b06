"""On the node: the keys in an authorized_keys file as line, type, fingerprint and options. Changes nothing."""

import base64
import hashlib
import re
from typing import Any, Dict, List

KEY = re.compile(r"(?:ssh-(?:rsa|dss|ed25519)|ecdsa-sha2-\S+|sk-\S+) +[A-Za-z0-9+/=]{16,}")


def keys_in(path: str) -> List[Dict[str, Any]]:
    try:
        with open(path, "rb") as f:
            return keys_of(f.read().decode("utf-8", "replace"))
    except OSError:
        return []


def keys_of(text: str) -> List[Dict[str, Any]]:
    found = []  # type: List[Dict[str, Any]]
    for number, line in enumerate(text.splitlines(), 1):
        hit = KEY.search(line)
        if not hit or line.lstrip().startswith("#"):
            continue
        kind, blob = hit.group(0).split()[:2]
        try:
            digest = base64.b64encode(hashlib.sha256(base64.b64decode(blob)).digest()).decode().rstrip("=")
        except ValueError:
            digest = "?"
        options = re.findall(r'([a-zA-Z-]+)(?:="(?:[^"]*)")?', line[: hit.start()])
        found.append({"line": number, "type": kind, "fingerprint": "SHA256:" + digest, "options": options})
    return found
