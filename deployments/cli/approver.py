"""approver: sets up the one-time codes by which a person proves to be who they say. The secret stays on this machine."""

import argparse
import json
import sys
from datetime import UTC, datetime

from deployments.errors import CommandError
from deployments.state import state_dir
from runbooks.core.names import there_are
from runbooks.core.totp import base32, matching_step, provisioning_uri
from tasks.approvers.secrets import NoSecrets, approvers_file, new_secret, put_approver, read_approvers

TRIES = 3
LONGEST = 80


def cmd_approver(ns: argparse.Namespace) -> int:
    """`gpu-runbooks approver add|list|remove`."""
    state_dir()
    try:
        return {"add": _add, "list": _list, "remove": _remove}[ns.approver_command](ns)
    except NoSecrets as e:
        raise CommandError(str(e)) from e


def _add(ns: argparse.Namespace) -> int:
    name = ns.name.strip()
    if not name or len(name) > LONGEST or not name.isprintable():
        raise CommandError(f"a name has 1 to {LONGEST} printable characters", 2)
    if name in read_approvers() and not ns.replace:
        raise CommandError(f"{name} already has a secret; --replace creates a new one, and the old codes stop working", 2)
    if not sys.stdin.isatty() or not sys.stdout.isatty():
        raise CommandError("run it in a terminal: it shows a secret and asks for a code", 2)
    secret = new_secret()
    print(f"Type this into {name}'s authenticator app (time-based, 6 digits):\n\n  {base32(secret)}\n")
    print(f"or enter this address:\n\n  {provisioning_uri(name, secret)}\n")
    if not _confirmed(secret):
        raise CommandError("not added: no code was correct; check the phone's clock")
    put_approver(name, secret)
    print(f"{name} added to {approvers_file()}. Name {name} under `approvers` in the policy file to require codes.")
    return 0


def _confirmed(secret: bytes) -> bool:
    """True once a code of the phone is right."""
    return any(
        matching_step(secret, input("The code that the app shows now: ").strip(), datetime.now(UTC)) is not None
        for _ in range(TRIES)
    )


def _list(ns: argparse.Namespace) -> int:
    names = sorted(read_approvers())
    if ns.json:
        print(json.dumps(names))
    else:
        print("\n".join(names) or "no approvers: codes are not set up on this machine")
    return 0


def _remove(ns: argparse.Namespace) -> int:
    if ns.name not in read_approvers():
        raise CommandError(f"no approver {ns.name!r}; {there_are(ns.name, sorted(read_approvers()))}", 2)
    put_approver(ns.name, None)
    print(f"{ns.name} removed; also remove the name from the policy file")
    return 0
