"""Reads and checks the words of `gpu-runbooks run --option NAME=VALUE`."""


from deployments.errors import CommandError
from runbooks.core.names import nearest
from tasks.whole_file import read_whole

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


def check_options(slug: str, options: dict[str, str]) -> dict[str, str]:
    """The same options if the runbook knows them all. Raises CommandError that names those there are."""
    from pydantic import ValidationError

    from flows.form import options_type

    try:
        kind = options_type(slug)
    except KeyError as e:
        raise CommandError(str(e.args[0])) from None
    try:
        kind.model_validate(options)
    except ValidationError as e:
        first = e.errors()[0]
        name = ".".join(str(p) for p in first["loc"])
        known = ", ".join(kind.model_fields) or "none"
        unknown = first["type"] == "extra_forbidden"
        near = nearest(name, kind.model_fields) if unknown else ""
        said = "no such option" if unknown else first["msg"]
        raise CommandError(f"--option {name}: {said}; {slug} takes: {known}" + (f"; nearest: {near}" if near else "")) from None
    return options


def _file(name: str, path: str) -> str:
    try:
        data = read_whole(path, LARGEST)
    except OSError as e:
        raise CommandError(f"--option {name}: {path}: {e.strerror or e}") from e
    return data.decode("utf-8", "replace")
