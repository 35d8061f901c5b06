"""Receivers, and a notifications.yaml in the rig's state folder."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.engine_rig import Rig
from tests.support.receivers import MailServer, Webhook


@pytest.fixture
def hook() -> Iterator[Webhook]:
    made = Webhook()
    yield made
    made.close()


@pytest.fixture
def mail() -> Iterator[MailServer]:
    made = MailServer()
    yield made
    made.close()


class Channels:
    """Writes channels and the file; the rig's processes find it in their state folder."""

    def __init__(self, folder: Path, hook: Webhook) -> None:
        self.folder, self.hook = folder, hook
        self.file = folder / "notifications.yaml"
        self.channel("hook", f"json://127.0.0.1:{hook.port}/secret-path-1234")

    def channel(self, name: str, url: str) -> Path:
        path = self.folder / f"{name}.url"
        path.unlink(missing_ok=True)
        path.write_text(url, encoding="utf-8")
        path.chmod(0o600)
        return path

    def write(self, text: str = "", person: str = "ana") -> None:
        own = f"  hook: {{url: {{file: {self.folder}/hook.url}}, person: {person}}}\n"
        links = "links: {ui: 'http://ui.test', gateway: 'http://gw.test'}\n"
        self.file.write_text(f"channels:\n{own}default: [hook]\n{links}{text}", encoding="utf-8")


@pytest.fixture
def channels(rig: Rig, hook: Webhook) -> Iterator[Channels]:
    made = Channels(Path(os.environ["GPU_RUNBOOKS_HOME"]), hook)
    made.write()
    yield made
    made.file.unlink()
