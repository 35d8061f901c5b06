"""Stops one systemd unit in the life it was judged in. JSON argument: {unit, life} (life: systemd's InvocationID)."""

import json
import subprocess
import sys
from typing import Any


def ask(*words: str) -> str:
    """Output of systemctl. Raises OSError or subprocess.TimeoutExpired."""
    done = subprocess.run(["systemctl", *words], capture_output=True, text=True, timeout=100, check=False)
    return (done.stdout if done.returncode == 0 else "") + (done.stderr if done.returncode else "")


def main(ask_: "dict[str, Any]") -> "dict[str, Any]":
    """The whole act."""
    unit = ask_["unit"]
    try:
        now = ask("show", "-p", "InvocationID", "--value", "--", unit).strip()
        if now != ask_["life"]:
            return {"refused": "%s was started again since, or has ended" % unit}
        said = ask("stop", "--", unit).strip()
        state = ask("show", "-p", "ActiveState", "--value", "--", unit).strip()
    except (OSError, subprocess.TimeoutExpired) as e:
        return {"failed": "%s: %s; look at it with systemctl status" % (unit, e)}
    if state not in ("inactive", "failed"):
        return {"failed": "%s is %s after systemctl stop: %s" % (unit, state, said)}
    return {"said": ["%s is %s; its file and its start at boot were not touched" % (unit, state)]}


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
