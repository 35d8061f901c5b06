"""Writes or takes away the quarantine mark of the node. JSON: path, node, reason, at, id, undo.

The mark is one JSON file, replaced in one step. A mark that this engine did not write stays as it is.
"""

import json
import os
import sys
from typing import Any

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
    """Put the mark there, whole or not at all."""
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    fresh = "%s.%d" % (path, os.getpid())
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
    with os.fdopen(fd, "w") as f:
        json.dump(mark, f)
        f.flush()
        os.fsync(f.fileno())
    os.replace(fresh, path)


def main(ask: "dict[str, Any]") -> "dict[str, Any]":
    """Mark or unmark."""
    old = there(ask["path"])
    try:
        if ask["undo"]:
            if old is None:
                return {"said": "there is no mark"}
            if old.get("by") != BY or (ask["id"] and old.get("id") != ask["id"]):
                return {"refused": "the mark was not set by this engine: %s" % json.dumps(old)[:300]}
            os.unlink(ask["path"])
            return {"said": "the mark of %s is gone" % old.get("at")}
        if old is not None:
            other = old.get("by") != BY or old.get("node") != ask["node"]
            said = "is marked already: %s" % json.dumps(old)[:300]
            return {"refused": said} if other else {"said": said}
        write(ask["path"], dict({k: ask[k] for k in ("node", "reason", "at", "id")}, by=BY))
    except OSError as e:
        return {"failed": "%s: %s" % (ask["path"], e)}
    return {"said": "mark written to %s" % ask["path"]}


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
