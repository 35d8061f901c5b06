"""What a command prints passes here: no text that was read can give the terminal a code, hide a line or write over one."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

from runbooks.core.clean import GONE, clean

_OVERWRITES = re.compile("[\r\v\f\x85\u2028\u2029]")


def seen(text: str) -> str:
    """`text` as a terminal may show it: no code, nothing that hides or writes over; line feeds and tabs stay."""
    return clean(_OVERWRITES.sub(GONE, text))


class Cleaned:
    """A text stream that shows what would not be seen as U+FFFD; line feeds and tabs stay."""

    def __init__(self, stream: TextIO) -> None:
        self.raw_text = stream

    def write(self, text: str) -> int:
        """Writes `text` cleaned."""
        self.raw_text.write(seen(text))
        return len(text)

    def writelines(self, lines: list[str]) -> None:
        """Writes each."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        """Everything else is the stream's own."""
        return getattr(self.raw_text, name)


@contextmanager
def cleaned() -> Iterator[None]:
    """While it lasts, standard output and standard error are cleaned."""
    out, err = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = cast(TextIO, Cleaned(out)), cast(TextIO, Cleaned(err))
    try:
        yield
    finally:
        sys.stdout, sys.stderr = out, err


def rewrite(text: str) -> None:
    """Puts `text` over the line on standard error: of progress only."""
    stream = getattr(sys.stderr, "raw_text", sys.stderr)
    stream.write(f"\r{clean(text)}")
    stream.flush()
