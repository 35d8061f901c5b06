"""How a command shows what it found: laid out and coloured for a person at a terminal, plain text for everything else.

All text is cleaned before it gets a colour, and nothing that is in it is taken for markup. `rich` is imported late.
"""

import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from deployments.cli.terminal import seen
from runbooks.core.clean import one_line
from runbooks.core.outcome import Outcome, Severity
from runbooks.core.show import Markdown
from runbooks.core.unmark import INDENT, PagePart, PartKind, Words, blocks, columns, plain, text_of

if TYPE_CHECKING:
    from rich.text import Text

NARROWEST, PROSE = 40, 110  # columns of a terminal that is laid out for, and of a sentence
GAP = 2  # columns between those of a table
_PIECE = re.compile(r"(?:`[^`\n]{1,200}`|\S)+")  # a word, or a command that a sentence names
_COLOURS = {Severity.CRITICAL: "bold red", Severity.WARNING: "bold yellow"}
_HEADINGS = {"Do NOT": "bold red", "Do not": "bold red", "WAITS FOR A PERSON": "bold yellow", "WRONG NOW": "bold red"}
_STATES = {"ok": "green", "note": "dim", "FAULT": "bold red"}


def is_rendered() -> bool:
    """A person looks at it, and wants more than plain text."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM", "dumb") != "dumb"


def colour(outcome: Outcome | None) -> str:
    """By who is needed: red now, yellow today, green nobody."""
    if outcome is None:
        return "bold"
    return _COLOURS.get(outcome.row.severity) or ("bold green" if outcome.exit_code == 0 else "bold")


def show_page(page: Markdown, outcome: Outcome | None = None) -> None:
    """A report or a question. `outcome` colours its first words."""
    if is_rendered():
        _put(_page(page, colour(outcome)))
    else:
        print(plain(page), end="")


def show_outcome(outcome: Outcome | None, name: str, headline: str) -> None:
    """How a run ended, in one sentence."""
    text = one_line(f"{name}: {headline}")
    if is_rendered():
        _put(_wrapped(_text((name, colour(outcome)), (text[len(one_line(name)) :], "")), _prose()))
    else:
        print(text)


def show_table(rows: Sequence[Sequence[str]], coloured: int = -1, headed: bool = True) -> None:
    """Rows; the first is the head if `headed`. Words in column `coloured` have the colour of the outcome or state that they name."""
    cells = [[one_line(cell) for cell in row] for row in rows]
    if is_rendered():
        styles = [[_cell_style(cell) if i == coloured else "" if i else "bold" for i, cell in enumerate(row)] for row in cells]
        texts = [[_text(pair) for pair in zip(*row, strict=True)] for row in zip(cells, styles, strict=True)]
        _put(_table(texts, headed))
    else:
        print("\n".join(columns(cells)))


def show_lines(lines: Iterable[str]) -> None:
    """Lines of ours: headings are not indented, what belongs to one is; a line that is a command is not broken."""
    if is_rendered():
        _put(line for text in lines for line in _own_line(text))
    else:
        print("\n".join(lines))


def show_heading(text: str) -> None:
    """The title of what follows."""
    if is_rendered():
        _put([_text(), _text((one_line(text), "bold reverse"))])
    else:
        print(f"\n== {one_line(text)}")


def _put(lines: "Iterable[Text]") -> None:
    from rich.console import Console

    stream = getattr(sys.stdout, "raw_text", sys.stdout)
    console = Console(file=stream, force_terminal=True, width=_width(), highlight=False, markup=False, emoji=False)
    for line in lines:
        line.rstrip()
        console.print(line, soft_wrap=True)
    stream.flush()


def _width() -> int:
    return max(NARROWEST, shutil.get_terminal_size().columns)


def _prose() -> int:
    return min(_width(), PROSE)


def _text(*parts: tuple[str, str]) -> "Text":
    """Words with their styles."""
    from rich.text import Text

    text = Text()
    for words, style in parts:
        text.append(seen(words).replace("\n", " "), style or None)
    return text


def _styled(words: Words, style: str, bold: str = "bold") -> "Text":
    return _text(*((span.text, bold if span.bold else style) for span in words))


def _page(page: Markdown, first: str) -> "Iterator[Text]":
    """`first`: style of the first words in bold. No empty line stands below a heading, above a list that belongs to a
    sentence, or below another one."""
    last: PagePart | None = None
    empty = False
    for block in blocks(page):
        if block.kind is PartKind.TEXT and not block.words:
            empty = True
            continue
        if empty and last and not _belongs(block, last):
            yield _text()
        is_first = bool(first) and block.kind is PartKind.TEXT and any(span.bold for span in block.words)
        yield from _block(block, first if is_first else "bold")
        first, last, empty = "" if is_first else first, block, False


def _belongs(block: PagePart, last: PagePart) -> bool:
    leads = last.kind is PartKind.TEXT and text_of(last.words).endswith(":") and block.kind is not PartKind.TEXT
    return last.kind is PartKind.HEADING or leads


def _block(block: PagePart, bold: str) -> "Iterator[Text]":
    if block.kind is PartKind.VERBATIM:
        yield from (_text((f"{INDENT}{line}", "cyan")) for line in block.lines)
    elif block.kind is PartKind.TABLE:
        yield from _table([[_styled(cell, "") for cell in row] for row in block.rows], True)
    elif block.kind is PartKind.HEADING:
        words = text_of(block.words)
        yield from _wrapped(_text((words, _HEADINGS.get(words, "bold" if block.level != 2 else "bold cyan"))), _prose())
    elif block.kind is PartKind.ITEM:
        yield from _wrapped(_text((f"{'  ' * block.level}- ", "")) + _styled(block.words, "", bold), _prose(), 2 * block.level + 2)
    else:
        yield from _wrapped(_styled(block.words, "", bold), _prose())


def _own_line(text: str) -> "Iterator[Text]":
    indent = len(text) - len(text.lstrip(" "))
    if not indent:
        title = text.partition(":")[0]
        yield from _wrapped(_text((text, _HEADINGS.get(text, "bold" if title.isupper() or text.endswith(":") else ""))), _width(), 2)
    elif text.lstrip(" ").startswith("gpu-runbooks "):
        yield _text((text, "cyan"))
    else:
        yield from _wrapped(_text((text, "")), _width(), indent + 2)


def _wrapped(text: "Text", width: int, hang: int = 0) -> "Iterator[Text]":
    """`text` in lines of at most `width`, never within a word or a command; all but the first are moved by `hang`."""
    from rich.cells import cell_len

    plain_text, begin = text.plain, 0
    cuts: list[int] = []
    for piece in _PIECE.finditer(plain_text):
        room = width - (hang if cuts else 0)
        if piece.start() > begin and cell_len(plain_text[begin : piece.end()]) > room and plain_text[begin : piece.start()].strip(" -"):
            begin = piece.start()
            cuts.append(begin)
    for number, line in enumerate(text.divide(cuts)):
        line.rstrip()
        yield _text((" " * hang, "")) + line if number and hang else line


def _table(rows: "Sequence[Sequence[Text]]", headed: bool) -> "Iterator[Text]":
    """Columns as wide as their words where that fits; else a row's cells below each other."""
    widths = _widths(rows)
    if widths is None:
        yield from _stacked(rows, headed)
        return
    for number, row in enumerate(rows):
        cells = [list(_wrapped(cell, width)) for cell, width in zip(row, widths, strict=True)]
        for at in range(max(len(lines) for lines in cells)):
            line = _text()
            for lines, width in zip(cells, widths, strict=True):
                cell = lines[at].copy() if at < len(lines) else _text()
                cell.pad_right(width - cell.cell_len + GAP)
                line += cell
            line.rstrip()
            if headed and not number:
                line.stylize("dim")
            yield line


def _widths(rows: "Sequence[Sequence[Text]]") -> list[int] | None:
    """Of each column; None where some word would have to be broken."""
    from rich.cells import cell_len

    across = list(zip(*rows, strict=True))
    wanted = [max(cell.cell_len for cell in column) for column in across]
    widths = [max((cell_len(p[0]) for cell in column for p in _PIECE.finditer(cell.plain)), default=0) for column in across]
    left = _width() - sum(widths) - GAP * (len(widths) - 1)
    if left < 0:
        return None
    while left and (hungry := [i for i, width in enumerate(widths) if width < wanted[i]]):
        for i in hungry[:left]:
            widths[i] += 1
        left -= len(hungry[:left])
    return widths


def _stacked(rows: "Sequence[Sequence[Text]]", headed: bool) -> "Iterator[Text]":
    for row in rows[1:] if headed else rows:
        yield from _wrapped(row[0], _width(), GAP)
        for i, cell in enumerate(row[1:], 1):
            name = f"{rows[0][i].plain}: " if headed and rows[0][i].plain else ""
            yield from _wrapped(_text((f"  {name}", "dim")) + cell, _width(), 4)


def _cell_style(cell: str) -> str:
    known = next((o for o in Outcome if cell in (o.value, o.row.name)), None)
    return colour(known) if known else _STATES.get(cell, "")
