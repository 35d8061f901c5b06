"""`gpu-runbooks login`: the UI's address and its log-in as it must be typed; in a terminal with a browser it opens the page."""

import argparse
import json
import os
import sys
import webbrowser

from deployments.own_server import own_server
from deployments.serving import use_answering_server
from deployments.state import auth_string, state_dir

SCREENS = ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")


def login_lines(ui: str, typed: bool) -> list[str]:
    """What `up` and `login` print. `typed`: as it must be typed; else (a log, a pipe) only where it stands."""
    return [f"UI:     {ui}", f"log-in: {_typed() if typed else _place()}"]


def _typed() -> str:
    if own_server():
        return _place()
    return f"{auth_string()}\n        type all of it into the one field, including the part before the colon; it is also in {_file()}"


def _place() -> str:
    if own_server():
        return "set by that server's operator; here it is in $PREFECT_API_AUTH_STRING, if the server asks for one"
    return f'the text behind "auth" in {_file()}; `gpu-runbooks login` prints it'


def _file() -> str:
    return str(state_dir() / "auth.json")


def cmd_login(ns: argparse.Namespace) -> int:
    """Starts nothing. `auth` is null for a server that is not ours: its log-in is not ours to print."""
    use_answering_server()
    from flows.ui_pages import UiPage, ui_url

    ui = ui_url(UiPage.HOME)
    if ns.json:
        print(json.dumps({"ui": ui, "auth": None if own_server() else auth_string(), "file": None if own_server() else _file()}))
        return 0
    print("\n".join(login_lines(ui, typed=True)), flush=True)
    if not ns.no_browser and _has_screen() and webbrowser.open(ui):
        print("opened in your browser")
    return 0


def _has_screen() -> bool:
    """A terminal of a person who has a browser: never a text browser in the middle of a script."""
    return sys.stdout.isatty() and any(os.environ.get(name) for name in SCREENS)
