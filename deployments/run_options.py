"""--option NAME=VALUE of `run`."""

from pathlib import Path

from deployments.errors import CommandError

LARGEST = 1 << 20


def parse_options(words: list[str]) -> dict[str, str]:
    """Options as a dictionary; `@FILE` stands for a file's text. Raises CommandError that names the word."""
    found: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name.isidentifier():
            raise CommandError(f"--option {word!r}: write NAME=VALUE")
        if name in found:
            raise CommandError(f"--option {name} is given twice")
        found[name] = _file(name, value[1:]) if value.startswith("@") else value
    return found


def _file(name: str, path: str) -> str:
    try:
        data = Path(path).read_bytes()
    except OSError as e:
        raise CommandError(f"--option {name}: {path}: {e.strerror or e}") from e
    if len(data) > LARGEST:
        raise CommandError(f"--option {name}: {path} is larger than {LARGEST >> 20} MiB; cut out the part that matters")
    return data.decode("utf-8", "replace")
