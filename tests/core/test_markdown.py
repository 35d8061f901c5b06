"""Whatever was read is shown as text: parsed by a CommonMark parser with tables, no markup comes out of it."""

import unicodedata
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from runbooks.core.markdown import block, clean, in_html, md, one_line
from runbooks.core.render import render
from tests.core.samples import fixed, report

PARSER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
PIECES = [
    "`",
    "``",
    "```",
    "~~~",
    "~",
    "|",
    "\\",
    "*",
    "**",
    "_",
    "__",
    "#",
    "# ",
    "- ",
    "+ ",
    "1. ",
    "1) ",
    "> ",
    "---",
    "===",
    "=",
    "<script>alert(1)</script>",
    "</details>",
    "<!--",
    "-->",
    "<b>",
    "&lt;",
    "&#60;",
    "&",
    "[a](http://x)",
    "![i](http://x)",
    "[a]: http://x",
    "[x]",
    "]",
    "(",
    ")",
    "\n",
    "\r\n",
    "\n\n",
    "\t",
    "    ",
    " ",
    "\x1b[31m",
    "\x1b]0;t\x07",
    "\x00",
    "\x07",
    "\u2028",
    "\u202e",
    "\u200b",
    "\ufeff",
    "\u061c",
    "\U000e0041",
    "$x$",
    "a",
    "word",
    "0",
    "é",
    "界",
    "http://x/?a=b&copy=1",
    "|---|---|",
    ":--",
]
NASTY = st.one_of(st.text(max_size=60), st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
PLACES = ["{}", "- {}", "1. {}", "  - {}", "### {}", "**Waiting.** {}", "| a | {} | b |"]


def parse(text: str, place: str) -> list[Token]:
    head = "| x | y | z |\n|---|---|---|\n" if place.startswith("|") else ""
    return PARSER.parse(head + place.format(md(text)) + "\n\nafter\n")


def inlines(tokens: list[Token]) -> list[list[Token]]:
    return [t.children or [] for t in tokens if t.type == "inline"]


@pytest.mark.parametrize("place", PLACES)
@given(text=NASTY)
@example(text="</details><script>x</script>")
@example(text="| a | b |\n|---|---|")
@example(text="ends with a backslash \\")
@example(text="1. x")
@example(text="=")
@example(text="-- -")
@example(text="0 #")
def test_inline_text_is_shown_and_nothing_else(place: str, text: str) -> None:
    bare, tokens = parse("word", place), parse(text, place)
    if not one_line(text):
        return
    assert [t.type for t in tokens] == [t.type for t in bare]
    shown = next(
        children for children, plain in zip(inlines(tokens), inlines(bare), strict=True)
        if "word" in "".join(c.content for c in plain)
    )  # fmt: skip
    kinds = {c.type for c in shown} - {"text", "strong_open", "strong_close"}
    assert not kinds
    content = "".join(c.content for c in shown).removeprefix("Waiting. ")
    assert content.split() == one_line(text).split()


@given(text=NASTY)
@example(text="```\n# out\n```")
@example(text="````\n```\n`````")
def test_a_fenced_block_cannot_be_left(text: str) -> None:
    tokens = PARSER.parse(f"<details><summary>s</summary>\n\n{block(text)}\n\n</details>\n\nafter\n")
    assert [t.type for t in tokens if t.type in ("fence", "html_block", "heading_open")] == [
        "html_block",
        "fence",
        "html_block",
    ]
    fence = next(t for t in tokens if t.type == "fence")
    assert fence.content.strip("\n") == clean(text).strip("\n")


@given(text=NASTY)
def test_text_inside_html_stays_text(text: str) -> None:
    shown = in_html(text)
    assert not set("<>\n`*_[|") & set(shown)
    assert PARSER.parse(f"<details><summary>{shown}</summary>\n\nx\n\n</details>\n")[0].content.count("<") == 3


@given(text=NASTY)
def test_no_control_characters_pass(text: str) -> None:
    for made in (md(text), block(text), in_html(text)):
        assert not [c for c in made if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") and c not in "\n\t"]
        assert not set("\u202a\u202e\u2066\u2069\u200b\u200f\u061c\ufeff\U000e0041") & set(made)


def poisoned(value: Any, poison: str) -> Any:
    """Every free text in a report's JSON replaced by `poison`."""
    keep = {
        "schema_version",
        "outcome",
        "state",
        "certainty",
        "started_at",
        "ended_at",
        "at",
        "kind",
        "reason",
        "allowed",
    }
    if isinstance(value, dict):
        return {k: v if k in keep else poisoned(v, poison) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [poisoned(v, poison) for v in value]
    return poison if isinstance(value, str) else value


@given(poison=NASTY)
@example(poison="</details>\n\n# Fixed\n\n| a |\n|---|\n```")
def test_a_whole_report_keeps_its_shape(poison: str) -> None:
    for sample in (report(), fixed()):
        hostile = type(sample).model_validate(poisoned(sample.model_dump(mode="json"), poison or "x"))
        assert shape(render(hostile)) == shape(
            render(type(sample).model_validate(poisoned(sample.model_dump(mode="json"), "x")))
        )


def shape(markdown: str) -> list[str]:
    """Headings, tables, HTML and fences, in order."""
    kinds = ("heading_open", "table_open", "tr_open", "html_block", "fence", "html_inline", "blockquote_open", "hr")
    tokens = PARSER.parse(markdown)
    inline = [
        c.type
        for t in tokens
        for c in (t.children or [])
        if c.type not in ("text", "softbreak", "strong_open", "strong_close")
    ]
    return [t.type + t.tag for t in tokens if t.type in kinds] + inline
