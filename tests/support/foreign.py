"""Strings that attack whatever shows them, and what must never come of one: parsers and oracles for the tests."""

import re

from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from runbooks.core.clean import CONTINUED, one_line
from runbooks.core.plan import Plan, Step
from runbooks.core.verdict import Cause, Certainty, Diagnosis, State

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
    "https://evil.example/approve/x",
    "www.evil.example",
    "ann@evil.example",
    "mailto:ann@evil.example",
    "evil.com/x",
    "evil.ru",
    "evil.co.uk",
    "@everyone",
    "<!channel>",
    "||",
    "[^1]",
    "[^1]: note",
    "- [x] ",
    "<img src='data:image/png;base64,AA'>",
    "\x9b31m",
    "\u0336",
    "Decide: ",
    "{}",
    "{{ x }}",
    "{% raw %}",
    "|---|---|",
    ":--",
]
NASTY = st.one_of(st.text(max_size=60), st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
HOSTILE_RUN = "nightly\n```\n\n### Choice “clear run nightly”: nothing of value is lost\n1. … Lost: nothing.\n\n<!--"
# GitHub's Markdown makes links of these in any text that is not code, after escapes were taken away
AUTOLINKS = (
    re.compile(r"(?i)(https?://|www(?=\.))([-.\w]+)([^ \t\r\n]*)"),
    re.compile(r"([-.\w+]+)@([-\w]+(?:\.[-\w]+)+)"),
)
# what chats, mail programs and pagers make a link, a call or markup of
FOLLOWED = (
    re.compile(r"(?i)\b(?!hxxps?:)[a-z][\w+.-]*://"),
    re.compile(r"(?i)\bwww\.|\bevil\.(?:com|ru|co\.uk)\b|\w@[\w-]+\.\w"),
    re.compile(r"(?i)@(everyone|here|channel)\b"),
    re.compile(r"\]\(|[<>`]|\|\|"),
)
PARSER = MarkdownIt("commonmark").enable(["table", "strikethrough"])


def inlines(tokens: list[Token]) -> list[list[Token]]:
    """The inline tokens of each piece of text."""
    return [t.children or [] for t in tokens if t.type == "inline"]


def becomes_a_link(tokens: list[Token]) -> list[str]:
    """Text, outside our own links, that Prefect's UI would make a link of by itself."""
    found = []
    for children in inlines(tokens):
        inside = 0
        for c in children:
            inside += c.nesting if c.type.startswith("link") else 0
            if c.type == "text" and not inside and any(p.search(c.content) for p in AUTOLINKS):
                found.append(c.content)
    return found


def visible(tokens: list[Token]) -> str:
    """What a person reads: text, code and blocks, one piece a line."""
    found = []
    for t in tokens:
        if t.type == "inline":
            found.append("".join(c.content for c in t.children or [] if c.type in ("text", "code_inline")))
        elif t.type == "fence":
            found.append(t.content)
    return "\n".join(found)


def diagnoses(words: st.SearchStrategy[str] = NASTY) -> st.SearchStrategy[Diagnosis]:
    """Judgments whose every text was written by an attacker; the plans have names that differ, as the engine asks for."""
    few = st.lists(words, max_size=3).map(tuple)
    step = st.builds(
        Step, kind=words, owner=words, args=st.just({}), commands=st.lists(words, min_size=1, max_size=3).map(tuple),
        effect=words, loses=words,
    )  # fmt: skip
    plan = st.builds(
        Plan, name=words, why=words, for_causes=few, settle_s=st.just(0.0),
        steps=st.lists(step, min_size=1, max_size=2).map(tuple),
    )  # fmt: skip
    cause = st.builds(
        Cause, slug=words, certainty=st.sampled_from(Certainty), subject=words, evidence=few, decides=few
    )  # fmt: skip
    return st.builds(
        Diagnosis, state=st.just(State.UNHEALTHY), headline=words, symptom=words, must_not=few, do_now=few,
        waiting_costs=few, unknowns=few, by_hand=few, causes=st.lists(cause, max_size=2).map(tuple),
        plans=st.lists(plan, min_size=1, max_size=2).map(tuple),
    )  # fmt: skip


def commands_shown(tokens: list[Token]) -> list[list[str]]:
    """The commands of each block, put together from their lines."""
    blocks = [t.content.removesuffix("\n") for t in tokens if t.type == "fence" and t.info == "sh"]
    return [b.replace(f"\n{CONTINUED}", "").split("\n") for b in blocks]


def says(text: str, value: str) -> bool:
    """True if `text` shows `value`, spaces apart (a browser folds them)."""
    return " ".join(one_line(value).split()) in " ".join(text.split())
