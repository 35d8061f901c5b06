"""A message as text for a phone, and many held ones as a digest. Plain text: every channel shows it as it stands."""

import re
from collections.abc import Sequence
from datetime import datetime

from runbooks.notify.message import CLOSING, WORDS, Message

CALLS = re.compile(r"@(?=(?:everyone|here|channel|all|room)\b)", re.I)
DIGEST_LINES = 40


def harmless(text: str) -> str:
    """Without what chats read as a call to everybody or as their own markup; a target's name may hold anything."""
    return CALLS.sub("@\u200b", text.replace("<", "‹").replace(">", "›"))


def title_of(m: Message) -> str:
    """One line: the same beginning for each message of an incident."""
    return harmless(f"[{m.incident}] {m.title}: {m.target}: {WORDS[m.outcome]}")[:200]


def body_of(m: Message, links: dict[str, str]) -> str:
    """The message. `links` are name → URL, in the order in which they are shown; made by us, not by the target."""
    lines = [m.headline]
    if m.others:
        alike = "Ended alike on" if m.outcome in CLOSING else "Fails alike on"
        lines += ["", f"{alike} {len(m.others) + 1} targets, told once: {', '.join((m.target, *m.others))}"]
    lines += _part("Do now:", m.do_now)
    lines += _part("Waiting costs:", m.waiting_costs)
    lines += _part("Do NOT:", m.must_not)
    for choice in m.choices:
        risk = " (DESTRUCTIVE)" if choice.destructive else ""
        lines += _part(f"Plan “{choice.name}”{risk}{': ' + choice.why if choice.why else ''}", choice.steps)
    lines += _part("Asked because:", m.asked_because)
    if m.expires:
        lines += ["", f"The approval ends at {_time(m.expires)}."]
    text = [harmless(line) for line in lines]
    if links:
        text += ["", *(f"{name}: {url}" for name, url in links.items())]
    where = f"fleet {m.fleet}, runbook {m.runbook}, {m.mode}, started {m.trigger}; run {m.run}"
    return "\n".join([*text, "", harmless(f"{m.severity.value} · {where} · {_time(m.at)}")])


def digest_of(held: Sequence[Message], since: datetime) -> tuple[str, str]:
    """(title, body) for what was held during quiet hours."""
    lines = [f"{_time(m.at)} {m.target}: {m.title}: {WORDS[m.outcome]}: {m.headline}" for m in held[:DIGEST_LINES]]
    if len(held) > DIGEST_LINES:
        lines.append(f"… and {len(held) - DIGEST_LINES} more; the run list in Prefect's UI has them all")
    title = f"gpu-runbooks: {len(held)} thing(s) since {_time(since)} that needed nobody"
    return title, "\n".join(harmless(line) for line in lines)


def _part(title: str, lines: Sequence[str]) -> list[str]:
    return ["", title, *(f"- {line}" for line in lines)] if lines else []


def _time(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M %Z}".strip()
