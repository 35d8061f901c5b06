"""The last nights of each node as a picture: SVG, a row a node, a square a night."""

from collections.abc import Iterator

from runbooks.core.clean import one_line
from runbooks.core.nights import NOTHING, UNKNOWN, WELL, WRONG, Nights
from runbooks.core.show import Html, html, joined
from runbooks.core.times import utc

MOST_ROWS = 60  # more rows are no picture any more; the worst are shown
SIDE, STEP, NAME = 10, 12, 220  # px: a square, a row, the column of names
LONGEST = 34  # characters of a name that fit into its column
COLOURS = {
    WRONG: ("#d1242f", "needs a person"),
    UNKNOWN: ("#e08600", "cannot tell"),
    WELL: ("#2da44e", "healthy"),
    NOTHING: ("#8c959f", "nothing to judge"),
}


def night_chart(nights: Nights) -> Html:
    """SVG; "" of nights without a node. The worst row first: most nights wrong, then most unread."""
    rows = sorted(nights.nodes.items(), key=lambda r: (-r[1].count(WRONG), -r[1].count(UNKNOWN), r[0]))
    if not rows or not nights.at:
        return html("")
    shown = rows[:MOST_ROWS]
    below = STEP * (len(shown) + 1)
    width, height = NAME + STEP * max(len(nights.at), 20), below + 3 * STEP
    left = f"; the {MOST_ROWS} worst of {len(rows)} nodes" if len(rows) > MOST_ROWS else ""
    says = f"{len(nights.at)} nights, {utc(nights.at[0])} to {utc(nights.at[-1])}{left}"
    head = html('<svg xmlns="http://www.w3.org/2000/svg" width="{}" height="{}" font-size="{}" fill="#808080">', width, height, SIDE)
    names = (_text(0, row * STEP + SIDE, one_line(name, LONGEST)) for row, (name, _) in enumerate(shown, 1))
    squares = _squares([letters for _, letters in shown])
    return joined("", [head, _text(0, SIDE, says), *names, *squares, *_legend(below + 2 * STEP), html("</svg>")])


def _text(x: int, y: int, words: str) -> Html:
    return html('<text font-family="sans-serif" x="{}" y="{}">{}</text>', x, y, words)


def _squares(rows: list[str]) -> Iterator[Html]:
    """One path for each colour: a square as an element of its own would take five times the room."""
    for sign, (colour, _) in COLOURS.items():
        places = [(x, y) for y, letters in enumerate(rows, 1) for x, found in enumerate(letters) if found == sign]
        if places:
            path = "".join(f"M{NAME + x * STEP} {y * STEP}h{SIDE}v{SIDE}h-{SIDE}z" for x, y in places)
            yield html('<path fill="{}" d="{}"/>', colour, path)


def _legend(y: int) -> Iterator[Html]:
    for k, (colour, words) in enumerate(COLOURS.values()):
        yield html('<rect fill="{}" x="{}" y="{}" width="{}" height="{}"/>', colour, k * 110, y - SIDE, SIDE, SIDE)
        yield _text(k * 110 + STEP + 2, y - 1, words)
