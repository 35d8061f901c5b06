"""Command lines of the fleet file. They are shown in plans and stored by Prefect, so no secret may stand in them."""

from typing import Annotated

from pydantic import AfterValidator

from runbooks.core.redact import Redactor


def _usable(argv: tuple[str, ...]) -> tuple[str, ...]:
    if argv and not argv[0].strip():
        raise ValueError("its first word, the program, is empty")
    if any("\0" in word for word in argv):
        raise ValueError("a word holds a NUL byte: no program can be given that")
    return argv


def _no_secrets(argv: tuple[str, ...]) -> tuple[str, ...]:
    if tuple(Redactor(bytes(32)).argv(list(argv))) != argv:
        raise ValueError(
            "a secret stands in this command line; let the command read it itself (a file, its environment)"
        )
    return argv


Argv = Annotated[tuple[str, ...], AfterValidator(_usable), AfterValidator(_no_secrets)]
