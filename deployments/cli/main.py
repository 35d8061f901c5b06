"""The console script `gpu-runbooks`. Each command's module is imported only when that command runs."""

import os
import sys
from argparse import Namespace
from collections.abc import Callable
from importlib import import_module

from deployments.cli.ending import ended, open_streams
from deployments.cli.parser import build_parser
from deployments.cli.terminal import cleaned
from deployments.errors import CommandError

COMMANDS = {
    "up": "deployments.cli.up:cmd_up",
    "down": "deployments.cli.down:cmd_down",
    "status": "deployments.cli.status:cmd_status",
    "login": "deployments.cli.login:cmd_login",
    "freeze": "deployments.cli.freeze:cmd_freeze",
    "unfreeze": "deployments.cli.unfreeze:cmd_unfreeze",
    "reset-breaker": "deployments.cli.reset_breaker:cmd_reset_breaker",
    "watch": "deployments.watch.command:cmd_watch",
    "nightly": "deployments.cli.nightly:cmd_nightly",
    "run": "deployments.cli.run:cmd_run",
    "approve": "deployments.cli.approve:cmd_approve",
    "reject": "deployments.cli.reject:cmd_reject",
    "show": "deployments.cli.show:cmd_show",
    "logs": "deployments.cli.logs:cmd_logs",
    "lab": "deployments.lab.main:cmd_lab",
    "list": "deployments.cli.list:cmd_list",
    "replay": "deployments.cli.replay:cmd_replay",
    "bundle": "deployments.cli.bundle:cmd_bundle",
    "doctor": "deployments.doctor.main:cmd_doctor",
    "secrets": "deployments.cli.secrets:cmd_secrets",
    "fleet": "deployments.cli.fleet:cmd_fleet",
    "gateway": "deployments.gateway.main:cmd_gateway",
    "alerts": "deployments.cli.alerts:cmd_alerts",
    "notify": "deployments.cli.notify:cmd_notify",
    "approver": "deployments.cli.approver:cmd_approver",
    "new-runbook": "deployments.cli.new_runbook:cmd_new_runbook",
}
PLACES = (
    "GPU_RUNBOOKS_HOME",
    "GPU_RUNBOOKS_REPORTS",
    "GPU_RUNBOOKS_APPROVERS",
    "GPU_RUNBOOKS_FLEET",
    "GPU_RUNBOOKS_POLICY",
)
"""Settings that name a file or folder: a worker that inherits them runs in another folder."""


def main(argv: list[str] | None = None) -> int:
    """Run one command and return its exit code (see `--help`)."""
    open_streams()
    with cleaned():
        return _main(argv)


def _main(argv: list[str] | None) -> int:
    args = sys.argv[1:] if argv is None else argv
    wants_json = "--json" in args
    for name in (n for n in PLACES if os.environ.get(n)):
        os.environ[name] = os.path.abspath(os.path.expanduser(os.environ[name]))  # noqa: PTH100, PTH111 - text in, text out
    return ended(lambda: _dispatch(args), wants_json)


def _dispatch(args: list[str]) -> int:
    for word in args:
        if not _is_text(word):
            raise CommandError(f"{word!r} is not UTF-8 text; neither the server nor a report can store it")
    if args[:1] in (["triage"], ["restore"]):
        module = {"triage": "deployments.cli.triage", "restore": "deployments.cli.restore"}[args[0]]
        return int(_function(f"{module}:main")(args[1:]))
    if args[:1] in (["run"], ["list"]) and {"-h", "--help"} & set(args[1:]):
        return int(_function("deployments.cli.runbook_help:runbook_help")(args))
    parser = build_parser()
    ns = parser.parse_args(args)
    if ns.version:
        return _version()
    if ns.command is None:
        parser.print_help()
        return 2
    return _run(ns)


def _is_text(word: str) -> bool:
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True


def _run(ns: Namespace) -> int:
    place = COMMANDS[ns.command]
    if ns.command == "run" and ns.no_server:
        place = "deployments.cli.list:cmd_run_no_server"
    return int(_function(place)(ns))


def _function(place: str) -> "Callable[..., int]":
    module, _, name = place.partition(":")
    function: Callable[..., int] = getattr(import_module(module), name)
    return function


def _version() -> int:
    from importlib.metadata import version

    from runbooks.core.report import SCHEMA

    print(f"gpu-runbooks {version('gpu-runbooks')}, report schema {SCHEMA}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
