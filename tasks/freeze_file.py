"""Reads this machine's own freeze file, which holds back acts even when the server says nothing."""

import os
from pathlib import Path


def read_freeze_file() -> str | None:
    """The reason in `$GPU_RUNBOOKS_HOME/FREEZE`, or None. A file that cannot be read freezes too."""
    home = os.environ.get("GPU_RUNBOOKS_HOME")
    base = (
        Path(home) if home else Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state") / "gpu-runbooks"
    )
    try:
        return (base / "FREEZE").read_text(encoding="utf-8", errors="replace").strip() or "no reason given"
    except FileNotFoundError:
        return None
    except OSError as e:
        return f"the freeze file cannot be read ({e})"
