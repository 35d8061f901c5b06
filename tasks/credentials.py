"""Reads a credential by its name: the environment variable first, then the Prefect Secret block of that name."""

import os
import sys
from typing import Any, cast

_FOUND: dict[str, str] = {}  # for this process: a server is asked once for each name


def block_name(name: str) -> str:
    """`RUNPOD_API_KEY` is the Secret block `runpod-api-key`."""
    return name.lower().replace("_", "-")


def credential(name: str) -> str:
    """The value as it was stored, "" when neither has it. The server is asked only where one is configured."""
    value = os.environ.get(name, "")
    return value if value.strip() else _block(name)


def where(name: str) -> str:
    """Where a credential of that name is looked for, in words."""
    return f"environment variable {name} (or Prefect Secret {block_name(name)})"


def _block(name: str) -> str:
    if not _server_is_configured():
        return ""
    if name not in _FOUND:
        try:
            value = read_secret(block_name(name))
        except Exception:  # no such block, no server: the client's errors have no common base
            return ""
        _FOUND[name] = value
    return _FOUND[name]


def _server_is_configured() -> bool:
    if os.environ.get("PREFECT_API_URL"):
        return True
    if "prefect" not in sys.modules:
        return False
    from prefect.settings import PREFECT_API_URL

    return bool(PREFECT_API_URL.value())


def read_secret(block: str) -> str:
    """The text of a Prefect Secret block. Raises whatever the client raises."""
    from prefect.blocks.system import Secret

    return str(cast(Any, Secret).load(block, _sync=True).get())


def secret_blocks() -> tuple[str, ...]:
    """The names of all Prefect Secret blocks, and no value. Raises whatever the client raises."""
    from prefect.client.orchestration import get_client

    with get_client(sync_client=True) as client:  # the server knows no pages here: it gives all of a type
        found = client.read_block_documents_by_type("secret", include_secrets=False)
    return tuple(sorted(str(block.name) for block in found))


def write_secret(block: str, value: str) -> None:
    """Store a text as a Prefect Secret block, over one of that name. Raises whatever the client raises."""
    from prefect.blocks.system import Secret

    cast(Any, Secret)(value=value).save(block, overwrite=True, _sync=True)
