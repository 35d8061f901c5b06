"""The approve page as HTML for a phone. Everything that comes from a run is escaped; no script, nothing loaded."""

from collections.abc import Iterable
from datetime import datetime

from flows.notify.link_answers import LinkQuestion, QuestionState
from runbooks.core.clean import one_command, one_line
from runbooks.core.form import WITHHELD
from runbooks.core.plan import Plan, Step
from runbooks.core.show import Html, html, joined
from runbooks.core.times import utc
from runbooks.core.waiting import waits_words
from runbooks.notify.link import Ticket
from runbooks.notify.message import DECIDE, Message

LONGEST = 300  # characters of what is no command
STYLE = Html(
    """body{font:17px/1.45 system-ui,sans-serif;max-width:40em;margin:0 auto;padding:1em;color:#111;background:#fff}
h1{font-size:1.25em;margin:.2em 0}h2{font-size:1em;margin:1.1em 0 .3em}li{margin:.2em 0;overflow-wrap:anywhere}
p,label{overflow-wrap:anywhere}fieldset{border:1px solid #999;border-radius:8px;margin:.6em 0;padding:.6em}
input[type=text]{font:inherit;width:100%;box-sizing:border-box;padding:.5em;border:1px solid #777;border-radius:6px}
button{font:inherit;font-weight:600;width:100%;padding:.8em;margin:.5em 0;border-radius:8px;border:1px solid #333}
.no{color:#8a0000}.yes{background:#0b5d1e;color:#fff}.small{font-size:.85em;color:#444}
pre{white-space:pre-wrap;overflow-wrap:anywhere;background:#eee;margin:.3em 0;padding:.4em;font-size:.85em}"""
)

WORDS = {
    QuestionState.EXPIRED: ("This link has expired", "It has expired. If the run still waits, use Prefect's UI."),
    QuestionState.DECIDED: ("Already decided", "This question has its answer; a link counts once. Nothing was done now."),
    QuestionState.CHANGED: (
        "The plan has changed",
        "The plan of this link is no longer current. A new message was sent. Nothing was done.",
    ),
    QuestionState.ENDED: ("The run has ended", "There is nothing left to decide. Nothing was done now."),
    QuestionState.NOT_YET: ("Not ready yet", "The run is about to ask. Load this page again in a few seconds."),
    QuestionState.GONE: ("No such run", "The run no longer exists. Nothing was done."),
    QuestionState.UNCHECKED: (
        "This gateway cannot check the link",
        "Its notifications.yaml, which says who may decide, is missing or cannot be used. Nothing was done: decide in another way.",
    ),
    QuestionState.REVOKED: ("This link was withdrawn", "Its person is no longer set up to decide by link. Nothing was done."),
}


def question_page(ticket: Ticket, question: LinkQuestion, form_token: str, nonce: str) -> Html:
    """Each plan whole, with its exact commands, the two buttons, which plans are withheld and why, what must not be done."""
    m = question.message
    if m is None:
        said = "Decide in Prefect's UI or by `gpu-runbooks approve`. Nothing was done."
        return notice("Cannot show the plan", said, nonce, _in_prefect(question))
    body = html(
        "<h1>{}: {}</h1><p><b>{}</b></p>{}{}{}{}{}{}{}{}",
        m.title,
        m.target,
        m.headline,
        html("<p>{}</p>", waits_words(m.at, m.expires)),
        _list("Asked because", m.asked_because),
        _form(m, question, form_token),
        _list("Besides", (line for line in m.do_now if line != DECIDE)),
        _list("Do NOT", m.must_not, "no"),
        _list("Waiting costs", m.waiting_costs),
        html(
            '<p class="small">For {} alone{}. Opening this page decided nothing. Fleet {}, runbook {}, run {}.</p>',
            *(ticket.person, _until(question.until), m.fleet, m.runbook, m.run),
        ),
        _in_prefect(question),
    )
    return _page(f"Decide: {m.target}", body, nonce)


def _form(m: Message, question: LinkQuestion, form_token: str) -> Html:
    destructive = {c.name for c in m.choices if c.destructive}
    return html(
        '<form method="post" autocomplete="off"><input type="hidden" name="form" value="{}">{}'
        '<label>Why (optional)<input type="text" name="why" maxlength="300"></label>{}{}'
        '<button name="decision" value="reject">Reject</button>'
        '<button class="yes" name="decision" value="approve">Approve exactly this plan</button></form>',
        form_token,
        _all(_choice(plan, i, plan.name in destructive) for i, plan in enumerate(question.plans)),
        CODE_FIELD if question.codes != "no" else "",
        CODE_NEEDED if question.codes == "needed" else "",
    )


CODE_FIELD = html(
    '<label>Code of your authenticator<input type="text" name="code" inputmode="numeric" autocomplete="one-time-code" '
    'maxlength="12"></label>'
)
CODE_NEEDED = html("<p>A destructive plan needs the code; a rejection does not.</p>")


def _choice(plan: Plan, number: int, destructive: bool) -> Html:
    return html(
        '<fieldset><label><input type="radio" name="choice" value="{}"{}> <b>{}</b>{}</label>{}{}<ol>{}</ol></fieldset>',
        plan.name,
        html(" checked") if number == 0 and not plan.despite else "",
        plan.name,
        html(' <b class="no">DESTRUCTIVE</b>') if destructive else "",
        html('<p class="no">{} {}. It needs a reason.</p>', WITHHELD, one_line(plan.despite, LONGEST)) if plan.despite else "",
        html("<p>{}</p>", one_line(plan.why, LONGEST)) if plan.why else "",
        _all(_step(step) for step in plan.steps),
    )


def _step(step: Step) -> Html:
    """The commands are whole, each in a box of its own."""
    said = (one_line(text, LONGEST) for text in (step.kind, step.owner, step.effect, step.loses))
    commands = _all(html("<pre>{}</pre>", one_command(c)) for c in step.commands)
    return html("<li>{} on {}. Effect: {}. Lost: {}.{}</li>", *said, commands)


def standing_page(question: LinkQuestion, nonce: str) -> Html:
    """Why there is nothing to decide."""
    title, text = WORDS.get(question.standing, ("Not taken", "The server did not accept the answer. Nothing was done."))
    return notice(title, f"{text} {question.said}".strip(), nonce, _in_prefect(question))


def decided_page(decision: str, ticket: Ticket, question: LinkQuestion, nonce: str) -> Html:
    """The answer was taken."""
    text = f"{decision}d" if decision == "approve" else "rejected"
    more = "A worker diagnoses the target again, and acts only if the plan is unchanged." if decision == "approve" else ""
    said = f"Noted for {ticket.person}. {more} You will get a message with the result."
    return notice(text.capitalize(), said, nonce, _in_prefect(question))


def notice(title: str, text: str, nonce: str, link: Html | str = "") -> Html:
    """A page with one thing to say, and maybe a link made here."""
    return _page(title, html("<h1>{}</h1><p>{}</p>{}", title, text, link), nonce)


def _in_prefect(question: LinkQuestion) -> Html:
    """Where the run stands, for who has a log-in there."""
    if not question.page:
        return html("")
    return html('<p class="small"><a href="{}" rel="noreferrer">This run in Prefect\'s UI</a> (asks for a log-in)</p>', question.page)


def _list(title: str, lines: Iterable[str], kind: str = "") -> Html:
    items = _all(html("<li>{}</li>", line) for line in lines)
    return html('<h2 class="{}">{}</h2><ul>{}</ul>', kind, title, items) if items else items


def _all(parts: Iterable[Html]) -> Html:
    return joined("", [html(""), *parts])


def _until(at: datetime | None) -> str:
    return f", until {utc(at)}" if at else ""


def _page(title: str, body: Html, nonce: str) -> Html:
    return html(
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1"><meta name="robots" content="noindex">'
        '<title>{}</title><style nonce="{}">{}</style></head><body>{}</body></html>',
        *(title, nonce, STYLE, body),
    )
