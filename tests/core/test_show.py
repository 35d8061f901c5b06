"""Whatever was read is shown as text: parsed by a CommonMark parser with tables, no markup comes out of it."""

import re
import unicodedata
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it.token import Token

from runbooks.core.clean import clean, one_line
from runbooks.core.render import render
from runbooks.core.show import block, chat, chat_text, commands_block, html, in_html, link, markdown, md
from tests.core.samples import fixed, report
from tests.support.cost import cpu_seconds
from tests.support.foreign import FOLLOWED, NASTY, PARSER, becomes_a_link, inlines

PLACES = ["{}", "- {}", "1. {}", "  - {}", "### {}", "**Waiting.** {}", "| a | {} | b |"]


def parse(text: str, place: str) -> list[Token]:
    head = "| x | y | z |\n|---|---|---|\n" if place.startswith("|") else ""
    return PARSER.parse(head + place.format(md(text)) + "\n\nafter\n")


@pytest.mark.parametrize("place", PLACES)
@given(text=NASTY)
@example(text="</details><script>x</script>")
@example(text="| a | b |\n|---|---|")
@example(text="ends with a backslash \\")
@example(text="1. x")
@example(text="=")
@example(text="-- -")
@example(text="0 #")
@example(text="(https://evil.example/x), www.evil.example; a@b.example.com")
@example(text="`https://a.b`https://c.d|https://e.f")
def test_inline_text_is_shown_and_nothing_else(place: str, text: str) -> None:
    bare, tokens = parse("word", place), parse(text, place)
    if not one_line(text):
        return
    assert [t.type for t in tokens] == [t.type for t in bare]
    shown = next(
        children for children, plain in zip(inlines(tokens), inlines(bare), strict=True)
        if "word" in "".join(c.content for c in plain)
    )  # fmt: skip
    kinds = {c.type for c in shown} - {"text", "code_inline", "strong_open", "strong_close"}
    assert not kinds
    assert becomes_a_link(tokens) == []
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
        "links",  # ours
        "risks",  # words of an enum
    }
    if isinstance(value, dict):
        return {k: v if k in keep else poisoned(v, poison) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [poisoned(v, poison) for v in value]
    return poison if isinstance(value, str) else value


@given(poison=NASTY)
@settings(max_examples=40, deadline=None)
@example(poison="</details>\n\n# Fixed\n\n| a |\n|---|\n```")
def test_a_whole_report_keeps_its_shape(poison: str) -> None:
    for sample in (report(), fixed()):
        hostile = type(sample).model_validate(poisoned(sample.model_dump(mode="json"), poison if poison.strip() else "x"))
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
        if c.type not in ("text", "code_inline", "softbreak", "strong_open", "strong_close")
    ]
    return [t.type + t.tag for t in tokens if t.type in kinds] + inline


@given(text=NASTY)
@example(text="Decide (only for ann): https://evil.example/approve/x")
@example(text="https://good.example@evil.example?x=/https://evil.example")
@example(text="[Decide](https://evil.example) <https://evil.example|Decide> ![x](evil.com/x)")
@example(text="Decide: evil.ru, or evil.co.uk- or EVIL.COM.")
def test_nothing_foreign_can_be_followed_in_a_chat(text: str) -> None:
    shown = chat(text)
    assert [p.pattern for p in FOLLOWED if p.search(shown)] == []
    assert not re.match(r"[#>*+-]|\d+\. ", shown)  # neither heading, list nor quote
    assert chat(shown) is shown
    assert "\n" not in shown


@pytest.mark.parametrize(
    "text",
    [
        "pid 1 on gpu-3 is stuck", "see train.py:12, torch.distributed", "/data/run.old/ckpt", "torch.io.read_file",
        "sh run.sh model.pt libnccl.so.2",
    ],
)  # fmt: skip
def test_everyday_text_stays_as_it_is_in_a_chat(text: str) -> None:
    assert chat(text) == text


@given(commands=st.lists(NASTY, min_size=1, max_size=4), width=st.sampled_from([0, 7, 56]))
@example(commands=["a\n↪ b", "↪ c", "\td" * 40, "界" * 40], width=56)
def test_each_command_begins_one_line_and_nothing_else_does(commands: list[str], width: int) -> None:
    fences = [t for t in PARSER.parse(commands_block(commands, width)) if t.type == "fence"]
    assert len(fences) == 1
    lines = fences[0].content.removesuffix("\n").split("\n")
    assert len([x for x in lines if not x.startswith("↪ ")]) == len(commands)
    whole = [x.replace("⏎", "\n") for x in "\n".join(lines).replace("\n↪ ", "").split("\n")]
    for command, shown in zip(commands, whole, strict=True):
        wanted = clean(command).replace("\t", "⇥").replace("⏎", "\n")
        assert shown == (f"\ufffd{wanted[1:]}" if wanted.startswith("↪") else wanted)
    assert not width or max(map(columns, lines)) <= width + 2


def columns(line: str) -> int:
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in line)


@given(text=NASTY, longest=st.integers(60, 80))
@example(text="x" * 100_000, longest=60)
@example(text="\x1b[31m" * 9_000 + "y", longest=60)
def test_a_long_text_is_cut_and_says_so(text: str, longest: int) -> None:
    shown = one_line(text, longest)
    assert len(shown) <= longest
    assert shown == one_line(text) or "[cut:" in shown


@pytest.mark.parametrize("text", ["a@" * 50_000, "#@a" * 50_000 + ".x", "a.b-" * 50_000, "://" * 50_000, "x" * 200_000])
def test_long_hostile_text_costs_no_time(text: str) -> None:
    assert cpu_seconds(lambda: (md(text), chat(text), block(text)), 2) < 2


def test_marks_that_are_stacked_to_cover_other_lines_are_taken_off() -> None:
    assert clean("e\u0301 o" + "\u0336" * 40).count("\u0336") == 3
    assert clean("e\u0301") == "e\u0301"


def test_only_what_was_made_here_passes_as_it_is() -> None:
    assert markdown("**{}** {}", "**x**", markdown("*y*")) == r"**\*\*x\*\*** *y*"
    assert html("<b>{}</b>{}", "<i>", html("<br>")) == "<b>&lt;i&gt;</b><br>"
    assert chat_text("{}: {}", chat("x"), "https://a.b/c") == "x: hxxps://a[.]b/c"
    assert md(html("<br>")) == "&lt;br&gt;"  # made for another kind of output: foreign here
    assert link("[x](y)", "https://us.example/a") == r"[\[x\](y)](https://us.example/a)"
    for url in ("https://us.example/a b", "javascript:x", "https://x/)", "/a b", "//evil.example"):
        with pytest.raises(ValueError, match="not a link of ours"):
            link("x", url)
