"""The link's page: every plan whole, and no element that foreign text made."""

from datetime import UTC, datetime
from html.parser import HTMLParser

from hypothesis import example, given, settings

from deployments.gateway.approve_page import notice, question_page
from flows.notify.link_answers import LinkQuestion, QuestionState
from runbooks.core.clean import one_command
from runbooks.core.verdict import Diagnosis
from runbooks.notify.link import Ticket
from runbooks.notify.message import LINE, message_of
from tests.core.samples import DIAGNOSIS, report
from tests.support.foreign import NASTY, diagnoses, says

TICKET = Ticket(run="r", key="abc-0", person="ana", ends=datetime(2026, 3, 7, tzinfo=UTC))
EVIL = "</title></style><script>alert(1)</script><a href=https://evil.example>Decide</a><img src=x onerror=alert(1)>\" onload=\"x"


class Seen(HTMLParser):
    """Tags in order, attributes, text, and what stands in each box."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.text, self.boxes = "", [""]
        self._in_box = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}
        self._in_box = tag == "pre"
        self.boxes += [""] if self._in_box else []

    def handle_endtag(self, tag: str) -> None:
        self._in_box = False
        self.text += "\n"

    def handle_data(self, data: str) -> None:
        self.text += data
        if self._in_box:
            self.boxes[-1] += data


def seen(diagnosis: Diagnosis, guard: str, target: str) -> Seen:
    plans = tuple({p.name: p for p in diagnosis.plans}.values())
    found = report(diagnosis=diagnosis, guards=(guard,), target=target, title=target, headline=diagnosis.headline)
    m = message_of(found, offered=tuple(p.name for p in plans), approval_key="abc-0")
    return Seen(question_page(TICKET, LinkQuestion(standing=QuestionState.OPEN, message=m, plans=plans), "f" * 8, "n" * 8))


@given(diagnosis=diagnoses(), guard=NASTY, target=NASTY)
@settings(max_examples=60, deadline=None)
@example(diagnosis=DIAGNOSIS, guard=EVIL, target=EVIL)
def test_the_page_shows_each_command_and_reason_and_nothing_foreign_acts(diagnosis: Diagnosis, guard: str, target: str) -> None:
    page = seen(diagnosis, guard, target)
    plans = tuple({p.name: p for p in diagnosis.plans}.values())
    commands = [one_command(c).strip() for p in plans for s in p.steps for c in s.commands]
    assert [b.strip() for b in page.boxes[1:]] == commands
    steps = [s for p in plans for s in p.steps]
    wanted = [guard, diagnosis.headline, *(p.name for p in plans), *(s.effect for s in steps), *(s.loses for s in steps)]
    assert [w for w in wanted if not says(page.text, w)] == []
    assert page.tags.count("fieldset") == len(plans)
    assert set(page.tags) <= {
        "html", "head", "meta", "title", "style", "body", "h1", "h2", "p", "b", "ul", "ol", "li", "pre",
        "form", "input", "fieldset", "label", "button",
    }  # fmt: skip
    assert page.attributes <= {
        "lang", "charset", "name", "content", "nonce", "class", "method", "autocomplete", "type", "value", "checked", "maxlength",
    }  # fmt: skip


def test_a_long_command_is_shown_whole_and_a_long_reason_is_cut() -> None:
    plan = DIAGNOSIS.plans[0]
    step = plan.steps[0].model_copy(update={"commands": ("rm " + "x" * 5_000,), "loses": "y" * 5_000})
    page = seen(DIAGNOSIS.model_copy(update={"plans": (plan.model_copy(update={"steps": (step,)}),)}), "z" * 5_000, "n")
    assert page.boxes[1] == "rm " + "x" * 5_000
    assert page.text.count("[cut: 5,000 characters]") == 2
    assert len(page.text) < 5_000 + 8 * LINE


def test_a_notice_is_text() -> None:
    page = Seen(notice(EVIL, EVIL, "n"))
    assert {"script", "a", "img"} & set(page.tags) == set()
    assert page.attributes <= {"lang", "charset", "name", "content", "nonce"}
