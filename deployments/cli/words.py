"""How the command line reads words: numbers with bounds, and nearest names for what is misspelt. Only argparse is imported."""

import argparse
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

MOST_SECONDS = 86_400.0


class Parser(argparse.ArgumentParser):
    """Of the whole command line and of each command: a wrong word is answered with the nearest right one."""

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Commands, subcommands and options with a list of words pass here."""
        if action.choices is not None and value not in action.choices:
            from runbooks.core.names import there_are

            raise argparse.ArgumentError(action, f"invalid choice: {value!r}; {there_are(str(value), map(str, action.choices))}")

    def parse_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        """As argparse does; an option that there is not is named with the nearest of that command."""
        found, unknown = self.parse_known_args(args, namespace)
        if unknown:
            *_, chosen = self.chosen(found)
            chosen._refuse(unknown)
        return found

    def chosen(self, found: argparse.Namespace) -> "Iterator[Parser]":
        """This parser, then that of the command, then that of its subcommand."""
        yield self
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                sub = action.choices.get(str(getattr(found, action.dest, "")))
                if isinstance(sub, Parser):
                    yield from sub.chosen(found)

    def _refuse(self, unknown: list[str]) -> NoReturn:
        from runbooks.core.names import there_are

        options = [word for action in self._actions for word in action.option_strings if word.startswith("--")]
        first = next((word.partition("=")[0] for word in unknown if word.startswith("--")), "")
        self.error(f"unrecognized arguments: {' '.join(unknown)}" + (f"; {there_are(first, options)}" if first else ""))


def within(low: int, high: int, what: str) -> Callable[[str], int]:
    """A whole number from `low` to `high`."""

    def read(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = low - 1
        if not low <= number <= high:
            raise argparse.ArgumentTypeError(f"{what} is a whole number from {low} to {high}, not {text[:40]!r}")
        return number

    return read


def seconds(text: str) -> float:
    """A time of at most a day."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number <= MOST_SECONDS:
        raise argparse.ArgumentTypeError(f"a time is a number of seconds up to {MOST_SECONDS:.0f}, not {text[:40]!r}")
    return number


port = within(1, 65_535, "a port")
