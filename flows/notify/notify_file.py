"""Finds and reads notifications.yaml: who is told what, and where."""

import os
from pathlib import Path

from flows.config import read_text
from runbooks.core.config import parse_yaml
from runbooks.notify.config import Notifications
from tasks.installation import state_folder

FILE_ENV = "GPU_RUNBOOKS_NOTIFICATIONS"


def notifications_file() -> str | None:
    """`$GPU_RUNBOOKS_NOTIFICATIONS`, else notifications.yaml in the state folder, else None: nobody is told."""
    given = os.environ.get(FILE_ENV)
    if given:
        return given
    path: Path = state_folder() / "notifications.yaml"
    return str(path) if path.exists() else None


def load_notifications(path: str | None = None) -> Notifications | None:
    """The file as types; None if there is none. Raises ConfigError."""
    path = path or notifications_file()
    return parse_yaml(read_text(path), Notifications, path) if path else None
