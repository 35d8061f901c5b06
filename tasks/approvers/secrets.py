"""Keeps the approvers' authenticator secrets: a file of the state folder, 0600, never in Prefect, reports or logs."""

import json
import os
import secrets
from pathlib import Path

from runbooks.core.totp import SECRET_BYTES
from tasks.approvers.locked import locked_json
from tasks.installation import lasting

ENV = "GPU_RUNBOOKS_APPROVERS"


class NoSecrets(Exception):
    """The file cannot be used. The message says what to do."""


def approvers_file() -> Path:
    """`$GPU_RUNBOOKS_APPROVERS`, else approvers.json in the state folder."""
    given = os.environ.get(ENV)
    return lasting(given or "approvers.json")


def read_approvers() -> dict[str, bytes]:
    """Name → secret; empty if nobody was added. Raises NoSecrets."""
    path = approvers_file()
    try:
        if path.stat().st_mode & 0o077:
            raise NoSecrets(f"{path} can be read by others: chmod 600 it, and add its approvers again")
        found = json.loads(path.read_text(encoding="utf-8"))
        return {str(name): bytes.fromhex(secret) for name, secret in found.items()}
    except FileNotFoundError:
        return {}
    except OSError as e:
        raise NoSecrets(f"{path}: {e.strerror}") from e
    except (ValueError, AttributeError, TypeError) as e:
        raise NoSecrets(f"{path} is damaged: add its approvers again") from e


def new_secret() -> bytes:
    """As long as RFC 4226 recommends."""
    return secrets.token_bytes(SECRET_BYTES)


def put_approver(name: str, secret: bytes | None) -> None:
    """Adds or replaces an approver; None removes one."""
    read_approvers()  # refuses a damaged file rather than replacing it
    with locked_json(approvers_file()) as found:
        if secret is None:
            found.pop(name, None)
        else:
            found[name] = secret.hex()
