"""GET and POST /approve/TOKEN: a signed link opens the question, and a form in it gives the one answer."""

import asyncio
import hmac
import logging
import secrets
from collections.abc import Mapping
from urllib.parse import parse_qs, urlsplit

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from deployments.gateway import approve_page as page
from deployments.gateway.limits import Bucket, Buckets, TooLarge, read_body
from flows.notify.link_answers import QuestionState, decide, read_question
from runbooks.core.clean import one_line
from runbooks.core.show import Html
from runbooks.notify.link import BadLink, Ticket, form_token, read
from tasks.notify.keys import NoKey, link_key

log = logging.getLogger("gateway")
LARGEST_FORM = 8_192
READ_LIMIT_S = 10.0
STATUS = {QuestionState.NOT_YET: 503, QuestionState.UNCHECKED: 503, QuestionState.OPEN: 409,
    QuestionState.GONE: 404}  # every other end of a link: 410
NO_ANSWER = "Prefect's server does not answer. Nothing was decided: try again, or use another way."
NOT_OURS = "It was not created here, or was changed in transit. Nothing was done."


class PageRefused(Exception):
    """A request that gets a page without a look at its run."""

    def __init__(self, code: int, title: str, text: str) -> None:
        super().__init__(title)
        self.code, self.title, self.text = code, title, text


class LinkLimits:
    """Bad links are counted per sender and in all; a good one has a limit of its own, which nobody else can use up."""

    def __init__(self) -> None:
        self.bad, self.all_bad, self.good = Buckets(0.5, 10), Bucket(10, 100), Buckets(1, 20)

    def bad_link(self, request: Request) -> PageRefused:
        """What a bad link gets."""
        sender = request.client.host if request.client else ""
        if self.bad.take(sender) or self.all_bad.take():
            return PageRefused(429, "Too many requests", "Wait a minute.")
        return PageRefused(404, "Not a link of ours", NOT_OURS)


def approve_router() -> APIRouter:
    """The routes. They need the link key, notifications.yaml and the Prefect server: any number of gateways may serve them."""
    router = APIRouter(prefix="/approve")
    limits = LinkLimits()

    @router.get("/{token}")
    async def show(token: str, request: Request) -> HTMLResponse:
        """Shows the question. Decides nothing, whoever opens it."""
        nonce = secrets.token_urlsafe(16)
        try:
            ticket, key = await asyncio.to_thread(_ticket, token, request, limits)
            question = await asyncio.to_thread(read_question, ticket)
        except Exception as e:
            return _failed(e, nonce)
        if question.standing is QuestionState.OPEN:
            return _html(200, page.question_page(ticket, question, form_token(token, key), nonce), nonce)
        return _html(STATUS.get(question.standing, 410), page.standing_page(question, nonce), nonce)

    @router.post("/{token}")
    async def answer(token: str, request: Request) -> HTMLResponse:
        """Takes the answer, once."""
        nonce = secrets.token_urlsafe(16)
        try:
            ticket, key = await asyncio.to_thread(_ticket, token, request, limits)
            form = await _form(request)
            _same_page(request, form, form_token(token, key))
            decision = form.get("decision", "")
            if decision not in ("approve", "reject"):
                raise PageRefused(400, "Neither approve nor reject", "Nothing was done. Open the link again.")
            fields = [one_line(form.get(name, "")[:longest]) for name, longest in (("choice", 200), ("why", 300), ("code", 12))]
            taken, question = await asyncio.to_thread(decide, ticket, key, decision, *fields)
        except Exception as e:
            return _failed(e, nonce)
        if taken:
            return _html(200, page.decided_page(decision, ticket, question, nonce), nonce)
        return _html(STATUS.get(question.standing, 410), page.standing_page(question, nonce), nonce)

    return router


def _ticket(token: str, request: Request, limits: LinkLimits) -> tuple[Ticket, bytes]:
    key = link_key()
    try:
        ticket = read(token, key)
    except BadLink:
        raise limits.bad_link(request) from None
    if limits.good.take(token):
        raise PageRefused(429, "Too many requests", "Wait a few seconds and load the page again. Nothing was done.")
    return ticket, key


async def _form(request: Request) -> dict[str, str]:
    """The form's fields, each given once."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise PageRefused(415, "Not a form", "Nothing was done. Open the link in a browser.")
    try:
        body = await asyncio.wait_for(read_body(request, LARGEST_FORM), READ_LIMIT_S)
        found = parse_qs(body.decode("utf-8"), keep_blank_values=True, max_num_fields=10)
    except TooLarge:
        raise PageRefused(413, "Too long", "Nothing was done.") from None
    except (ValueError, TimeoutError):
        raise PageRefused(400, "Not a form", "Nothing was done.") from None
    if any(len(values) != 1 for values in found.values()):
        raise PageRefused(400, "Not our form", "Nothing was done.")
    return {name: values[0] for name, values in found.items()}


def _same_page(request: Request, form: Mapping[str, str], wanted: str) -> None:
    """A decision comes from a form that we showed, on our own page."""
    site = request.headers.get("sec-fetch-site", "same-origin")
    origin = request.headers.get("origin", "null")  # browsers send null under no-referrer
    foreign = origin != "null" and urlsplit(origin).netloc != request.headers.get("host", "")
    given = form.get("form", "").encode("utf-8", "replace")
    if site != "same-origin" or foreign or not hmac.compare_digest(given, wanted.encode()):
        raise PageRefused(403, "Not from our page", "Nothing was done. Open the link again and decide there.")


def _failed(error: Exception, nonce: str) -> HTMLResponse:
    """A page for everything that went wrong; never a traceback, never a 500."""
    if isinstance(error, PageRefused):
        return _html(error.code, page.notice(error.title, error.text, nonce), nonce)
    if isinstance(error, NoKey):
        log.error("approve links: %s", error)
        return _html(503, page.notice("Not set up", "This gateway has no key for links. Nothing was done.", nonce), nonce)
    log.error("approve link: %s", type(error).__name__)
    return _html(503, page.notice("No answer", NO_ANSWER, nonce), nonce)


def _html(code: int, text: Html, nonce: str) -> HTMLResponse:
    csp = f"default-src 'none'; style-src 'nonce-{nonce}'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    headers = {
        "Content-Security-Policy": csp,
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        "X-Robots-Tag": "noindex, nofollow",
        "Cross-Origin-Opener-Policy": "same-origin",
    }
    return HTMLResponse(text, code, headers)
