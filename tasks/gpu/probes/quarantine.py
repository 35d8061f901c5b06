"""Writes the quarantine mark of the node. JSON: path, node, reason, at.

The mark is one JSON file, put there in one step where none is. A mark that this engine did not write stays as it is.
"""

import json
import os
import sys
from typing import Any

from tasks.remote.probes.aside import rename_free, unguessable

WANTS = {"path": "str", "node": "str", "reason": "str", "at": "str"}
BY = "gpu-runbooks"


def there(path: str) -> "dict[str, Any] | None":
    """The mark that is there; an unreadable one counts as somebody else's."""
    try:
        with open(path) as f:
            found = json.load(f)
    except FileNotFoundError:
        return None
    except ValueError:
        return {"by": "unknown", "reason": "not JSON"}
    return found if isinstance(found, dict) else {"by": "unknown", "reason": "not an object"}


def write(path: str, mark: "dict[str, Any]") -> None:
    """Put the mark there, whole or not at all, and only where there is none. Raises FileExistsError."""
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    fresh = unguessable(path)
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
    with os.fdopen(fd, "w") as f:
        json.dump(mark, f)
        f.flush()
        os.fsync(f.fileno())
    try:
        rename_free(fresh, path)
    except OSError:
        os.unlink(fresh)
        raise


def main(ask: "dict[str, Any]") -> "dict[str, Any]":
    """Mark the node. A mark that is there already stays as it is."""
    try:
        old = there(ask["path"])
        if old is not None:
            other = old.get("by") != BY or old.get("node") != ask["node"]
            said = "is marked already: %s" % json.dumps(old)[:300]
            return {"refused": said, "code": "not-ours"} if other else {"said": said}
        write(ask["path"], dict({k: ask[k] for k in ("node", "reason", "at")}, by=BY))
        return {"said": "mark written to %s" % ask["path"]}
    except FileExistsError:
        said = "was marked by somebody else in this very moment: %s" % json.dumps(there(ask["path"]))[:300]
        return {"refused": said, "code": "would-overwrite"}
    except OSError as e:
        return {"failed": "%s: %s" % (ask["path"], e)}


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
