"""Says who works on an owner here, and where nobody does, that the given run may not begin any more. JSON: owner, folder, run.

Answer: {"state": "held", "run", "said"}, {"state": "free"} or {"state": "unknown", "said"}. Where it is free the run is written
into the lock file as over, so that a command of it that is still on its way is refused when it gets here.
"""

import fcntl
import json
import sys
from typing import Any

from tasks.remote.probes.node_lock import KEPT, content, locked, opened, who, write
from tasks.remote.probes.refused import Refused


def main(ask: "dict[str, Any]") -> "dict[str, Any]":
    """Look, and declare over."""
    try:
        fd = opened(ask["folder"], ask["owner"])
        if not locked(fd, fcntl.LOCK_EX):
            said = content(fd)
            return {"state": "held", "run": said.get("run", ""), "said": who(said)}
        said = content(fd)
        over = [r for r in said.get("over", []) if r != ask["run"]]
        write(fd, dict(said, over=[*over, ask["run"]][-KEPT:]))
    except (Refused, OSError) as e:
        return {"state": "unknown", "said": str(e)}
    return {"state": "free"}


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
