"""Reads this machine's own freeze file, which holds back acts even when the server says nothing."""

from tasks.installation import state_folder


def read_freeze_file() -> str | None:
    """The reason in `$GPU_RUNBOOKS_HOME/FREEZE`, or None. A file that cannot be read freezes too."""
    try:
        return (state_folder() / "FREEZE").read_text(encoding="utf-8", errors="replace").strip() or "no reason given"
    except FileNotFoundError:
        return None
    except OSError as e:
        return f"the freeze file cannot be read ({e})"
