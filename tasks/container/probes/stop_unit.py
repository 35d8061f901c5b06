"""Stops one systemd unit in the life it was judged in. JSON argument: {unit, life, uid}.

life is systemd's InvocationID; uid is the user whose own systemd has the unit, null for the machine's.
"""

import json
import sys
from typing import Any

from tasks.container.probes.units import systemctl

WANTS = {"unit": "str", "life": "str", "uid": "int?"}


def main(ask: "dict[str, Any]") -> "dict[str, Any]":
    """The whole act."""
    unit, uid = ask["unit"], ask.get("uid")
    now = systemctl("show", "-p", "InvocationID", "--value", "--", unit, uid=uid)
    if now is None:
        return {"failed": "systemctl cannot be asked about %s" % unit}
    if now.strip() != ask["life"]:
        return {"refused": "%s was started again since, or has ended" % unit, "code": "target-changed"}
    systemctl("stop", "--", unit, uid=uid, limit_s=100)
    state = (systemctl("show", "-p", "ActiveState", "--value", "--", unit, uid=uid) or "unknown").strip()
    if state not in ("inactive", "failed"):
        return {"failed": "%s is %s after systemctl stop; look at it with systemctl status" % (unit, state)}
    life = (systemctl("show", "-p", "InvocationID", "--value", "--", unit, uid=uid) or "").strip()
    if life and life != ask["life"]:
        return {"failed": "%s was started again in this very moment, and that life was stopped; it is %s" % (unit, state)}
    return {"said": ["%s is %s; its file and its start at boot were not touched" % (unit, state)]}


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
