"""The picture of the last nights: each node's row says what the reports said, the worst first, and its size is bounded."""

import base64
import xml.etree.ElementTree as ET
from datetime import UTC, datetime, timedelta

from runbooks.core.night_chart import COLOURS, MOST_ROWS, night_chart
from runbooks.core.nightly import nights_after
from runbooks.core.nights import MOST, UNKNOWN, WELL, WRONG, Nights
from runbooks.core.outcome import Outcome
from runbooks.core.show import picture
from tests.core.nights import BEFORE, TONIGHT

AT = datetime(2026, 3, 4, tzinfo=UTC)
SVG = "{http://www.w3.org/2000/svg}"


def drawn(svg: str, what: str) -> list[ET.Element]:
    """The picture's elements of that kind."""
    return list(ET.fromstring(svg).iter(f"{SVG}{what}"))  # noqa: S314 - made by us


def squares(svg: str) -> dict[str, int]:
    """How many squares the picture has of each letter, without its legend."""
    found = {e.get("fill"): str(e.get("d")).count("M") for e in drawn(svg, "path")}
    return {sign: found.get(colour, 0) for sign, (colour, _) in COLOURS.items()}


def test_each_night_is_the_worst_of_a_nodes_runbooks_and_is_handed_on() -> None:
    found = nights_after(BEFORE, TONIGHT.results, TONIGHT.nodes, TONIGHT.started_at)
    assert found.nodes == {"a": "xxxx", "b": "x..x", "c": "...x", "d": "xxx?", "e": "  x."}
    last = BEFORE[-1].model_copy(update={"nights": Nights(at=(AT,), nodes={"a": "?"})})
    after = nights_after((*BEFORE[:-1], last), TONIGHT.results, TONIGHT.nodes, TONIGHT.started_at)
    assert after.nodes == {"a": "?x", "b": " x", "c": " x", "d": " ?", "e": " ."}, "what the last report hands on is enough"


def test_only_the_last_nights_and_the_nodes_that_there_are_are_kept() -> None:
    nights = Nights()
    for n in range(MOST + 7):
        nights = nights.and_then(AT + timedelta(days=n), {"a": [Outcome.HEALTHY], **({"gone": []} if n < 3 else {})})
    assert (len(nights.at), nights.nodes) == (MOST, {"a": WELL * MOST})
    assert nights.at[-1] == AT + timedelta(days=MOST + 6)


def test_the_picture_shows_every_night_and_the_worst_node_first() -> None:
    nights = Nights(at=tuple(AT + timedelta(days=n) for n in range(4)), nodes={"<b>&": ".?..", "bad": "xx?x", "w" * 90: "...."})
    svg = night_chart(nights)
    assert squares(svg) == {WRONG: 3, UNKNOWN: 2, WELL: 7, "-": 0}
    texts = [str(e.text) for e in drawn(svg, "text")]
    assert texts[0] == "4 nights, 2026-03-04 00:00:00 UTC to 2026-03-07 00:00:00 UTC"
    assert texts[1:3] == ["bad", "<b>&"]
    assert "cut: 90 characters" in texts[3]
    assert night_chart(Nights()) == ""


def test_a_large_fleet_stays_a_picture() -> None:
    at = tuple(AT + timedelta(days=n) for n in range(MOST))
    svg = night_chart(Nights(at=at, nodes={f"node-{n:05}": ".?x-" * 7 + ".." for n in range(5000)} | {"worst": WRONG * MOST}))
    names = [str(e.text) for e in drawn(svg, "text")]
    assert names[1] == "worst"
    assert f"the {MOST_ROWS} worst of 5001 nodes" in names[0]
    assert len(picture("nights", svg)) < 100_000


def test_as_markdown_it_is_one_image_with_everything_inside() -> None:
    svg = night_chart(Nights(at=(AT,), nodes={"](x) <b>": "x"}))
    made = picture("the last ](nights)", svg)
    head, _, data = made.removesuffix(")").partition("(data:image/svg+xml;base64,")
    assert head == r"![the last \](nights)]"
    assert base64.b64decode(data).decode() == svg
