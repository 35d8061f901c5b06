"""A message as text for a phone, and many held ones as a digest. Every channel gets it as it stands.

What was read is made harmless by show.chat; the links are ours and nothing else in a message can be followed.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime

from runbooks.core.show import Chat, chat, chat_link, chat_text, joined
from runbooks.core.times import utc
from runbooks.core.waiting import waits_words
from runbooks.notify.message import Message, PlanChoice

DIGEST_LINES = 40


def title_of(m: Message) -> Chat:
    """One line: the same beginning for each message of an incident."""
    return chat_text("[{}] {}: {}: {}", m.incident, chat(m.title, 60), chat(m.target, 80), m.outcome.row.message)


def body_of(m: Message, links: Mapping[str, str]) -> Chat:
    """The message. `links` are name → URL, in the order in which they are shown; made by us, not by the target."""
    lines = [chat(m.headline)]
    if m.others:
        alike = "Ended alike on" if m.outcome.row.closing else "Fails alike on"
        names = joined(", ", map(chat, (m.target, *m.others)))
        lines += [chat(""), chat_text("{} {} targets, reported once: {}", alike, len(m.others) + 1, names)]
    lines += _part("Do now:", m.do_now)
    lines += _part("Waiting costs:", m.waiting_costs)
    lines += _part("Do NOT:", m.must_not)
    for choice in m.choices:
        lines += _choice(choice)
    lines += _part("Asked because:", m.asked_because)
    if m.expires:
        lines += [chat(""), chat(waits_words(m.at, m.expires))]
    if links:
        lines += [chat(""), *(chat_text("{}: {}", name, chat_link(url)) for name, url in links.items())]
    where = chat_text("fleet {}, runbook {}, {}, started {}; run {}", m.fleet, m.runbook, m.mode, m.trigger, m.run)
    return joined("\n", [*lines, chat(""), chat_text("{} · {} · {}", m.severity.value, where, _time(m.at))])


def digest_of(held: Sequence[Message], since: datetime) -> tuple[Chat, Chat]:
    """(title, body) for what was held during quiet hours."""
    lines = [
        chat_text("{} {}: {}: {}: {}", _time(m.at), m.target, m.title, m.outcome.row.message, m.headline)
        for m in held[:DIGEST_LINES]
    ]
    if len(held) > DIGEST_LINES:
        lines.append(chat_text("… and {} more; the run list in Prefect's UI has them all", len(held) - DIGEST_LINES))
    title = chat_text("gpu-runbooks: {} message(s) since {} that need no person", len(held), _time(since))
    return title, joined("\n", lines)


def _choice(choice: PlanChoice) -> list[Chat]:
    risk = " (DESTRUCTIVE)" if choice.destructive else ""
    why = chat_text(": {}", choice.why) if choice.why else chat("")
    commands = [chat_text("    {}", command) for command in choice.commands]
    return [*_part(chat_text("Plan “{}”{}{}", choice.name, risk, why), choice.steps), *commands]


def _part(title: str, lines: Sequence[str]) -> list[Chat]:
    return [chat(""), chat(title), *(chat_text("- {}", line) for line in lines)] if lines else []


def _time(at: datetime) -> str:
    return utc(at)
