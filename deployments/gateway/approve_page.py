"""The approve page as HTML for a phone. Everything that comes from a run is escaped; no script, nothing loaded."""

from collections.abc import Iterable
from datetime import datetime
from html import escape

from flows.link_answers import Question, Standing
from runbooks.notify.link import Ticket
from runbooks.notify.message import Choice, Message

STYLE = """body{font:17px/1.45 system-ui,sans-serif;max-width:40em;margin:0 auto;padding:1em;color:#111;background:#fff}
h1{font-size:1.25em;margin:.2em 0}h2{font-size:1em;margin:1.1em 0 .3em}li{margin:.2em 0;overflow-wrap:anywhere}
p,label{overflow-wrap:anywhere}fieldset{border:1px solid #999;border-radius:8px;margin:.6em 0;padding:.6em}
input[type=text]{font:inherit;width:100%;box-sizing:border-box;padding:.5em;border:1px solid #777;border-radius:6px}
button{font:inherit;font-weight:600;width:100%;padding:.8em;margin:.5em 0;border-radius:8px;border:1px solid #333}
.no{color:#8a0000}.yes{background:#0b5d1e;color:#fff}.small{font-size:.85em;color:#444}"""

WORDS = {
    Standing.EXPIRED: ("This link is over", "Nobody can decide with it any more. If the run still waits, use Prefect's UI."),
    Standing.DECIDED: ("Already decided", "This question has its answer; a link counts once. Nothing was done now."),
    Standing.CHANGED: (
        "The plan has changed",
        "What this link was sent for is not what would be done now. A new message was sent. Nothing was done.",
    ),
    Standing.ENDED: ("The run has ended", "There is nothing left to decide. Nothing was done now."),
    Standing.NOT_YET: ("Not ready yet", "The run is about to ask. Load this page again in a few seconds."),
    Standing.GONE: ("No such run", "The run is not there any more. Nothing was done."),
    Standing.UNCHECKED: (
        "This gateway cannot check the link",
        "Its notifications.yaml, which says who may decide, is missing or cannot be used. Nothing was done: decide in another way.",
    ),
    Standing.REVOKED: ("This link was withdrawn", "Its person is no longer set up to decide by link. Nothing was done."),
}


def question_page(ticket: Ticket, question: Question, form_token: str, nonce: str) -> str:
    """The plan in a few lines, what must not be done, and the two buttons."""
    m = question.message
    if m is None:
        return notice("Cannot show the plan", "Decide in Prefect's UI or by `gpu-runbooks approve`. Nothing was done.", nonce)
    parts = [
        f"<h1>{escape(m.title)}: {escape(m.target)}</h1>",
        f"<p><b>{escape(m.headline)}</b></p>",
        _list("Waiting costs", m.waiting_costs),
        _list("Do NOT", m.must_not, "no"),
        _list("Asked because", m.asked_because),
        _form(m, question, form_token),
        f'<p class="small">For {escape(ticket.person)} alone{_until(question.until)}. Opening this page decided nothing. '
        f"Fleet {escape(m.fleet)}, runbook {escape(m.runbook)}, run {escape(m.run)}.</p>",
    ]
    return _page(f"Decide: {m.target}", "".join(parts), nonce)


def _form(m: Message, question: Question, form_token: str) -> str:
    code = (
        '<label>Code of your authenticator<input type="text" name="code" inputmode="numeric" autocomplete="one-time-code" '
        'maxlength="12"></label>'
        if question.codes != "no"
        else ""
    )
    needs = "<p>A destructive plan needs it; to reject you don't.</p>" if question.codes == "needed" else ""
    return (
        f'<form method="post" autocomplete="off"><input type="hidden" name="form" value="{escape(form_token)}">'
        f"{''.join(_choice(c, i) for i, c in enumerate(m.choices))}"
        f'<label>Why (optional)<input type="text" name="why" maxlength="300"></label>{code}{needs}'
        '<button name="decision" value="reject">Reject</button>'
        '<button class="yes" name="decision" value="approve">Approve exactly this plan</button></form>'
    )


def _choice(choice: Choice, number: int) -> str:
    risk = ' <b class="no">DESTRUCTIVE</b>' if choice.destructive else ""
    steps = "".join(f"<li>{escape(s)}</li>" for s in choice.steps)
    why = f"<p>{escape(choice.why)}</p>" if choice.why else ""
    picked = " checked" if number == 0 else ""
    return (
        f'<fieldset><label><input type="radio" name="choice" value="{escape(choice.name)}"{picked}> '
        f"<b>{escape(choice.name)}</b>{risk}</label>{why}<ol>{steps}</ol></fieldset>"
    )


def standing_page(question: Question, nonce: str) -> str:
    """Why there is nothing to decide."""
    title, text = WORDS.get(question.standing, ("Not taken", "The server did not take the answer. Nothing was done."))
    return notice(title, f"{text} {question.said}".strip(), nonce)


def decided_page(decision: str, ticket: Ticket, nonce: str) -> str:
    """The answer was taken."""
    text = f"{decision}d" if decision == "approve" else "rejected"
    more = "A worker looks at the target again, and acts only if the plan is still the same." if decision == "approve" else ""
    return notice(text.capitalize(), f"Noted for {ticket.person}. {more} You will be told how it ends.", nonce)


def notice(title: str, text: str, nonce: str) -> str:
    """A page with one thing to say."""
    return _page(title, f"<h1>{escape(title)}</h1><p>{escape(text)}</p>", nonce)


def _list(title: str, lines: Iterable[str], kind: str = "") -> str:
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f'<h2 class="{kind}">{title}</h2><ul>{items}</ul>' if items else ""


def _until(at: datetime | None) -> str:
    return f", until {at:%Y-%m-%d %H:%M} UTC" if at else ""


def _page(title: str, body: str, nonce: str) -> str:
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1"><meta name="robots" content="noindex">'
        f'<title>{escape(title)}</title><style nonce="{nonce}">{STYLE}</style></head><body>{body}</body></html>'
    )
