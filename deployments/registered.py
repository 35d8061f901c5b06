"""What was registered last on the local server, so that starting again costs nothing."""

import hashlib
import json
import os
from pathlib import Path

from deployments.state import LocalState, state_dir


def register_if_changed(state: LocalState, fleet: str | None, policy: str | None) -> int:
    """Registers deployments unless all that describes them is unchanged since the last time."""
    from deployments.old_records import check_drained
    from deployments.register import fingerprint, register_all

    before = read_mark()
    served = {"fleet": fleet or before.get("fleet", ""), "policy": policy or before.get("policy", "")}
    mark = served | {"code": f"{state.port}:{fingerprint()}", "names": _digest(served["fleet"])}
    if mark == before and not os.environ.get("GPU_RUNBOOKS_REGISTER"):
        return 0
    if mark["code"] != before.get("code"):
        check_drained(state)
    count = register_all(served["fleet"] or None, served["policy"] or None)
    (state_dir() / "registered").write_text(json.dumps(mark), encoding="utf-8")
    return count


def read_mark() -> dict[str, str]:
    """What was registered last: code, and the files that the forms are filled with."""
    try:
        found = json.loads((state_dir() / "registered").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _digest(path: str) -> str:
    """Changes when the file does; "" if there is none."""
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest() if path else ""
    except OSError:
        return ""
