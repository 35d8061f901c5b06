"""Routes, quiet hours, texts and the file's errors, without a server."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deployments.cli.main import main
from runbooks.core.clean import one_command
from runbooks.core.config import ConfigError, parse_yaml
from runbooks.core.outcome import TABLE, Outcome
from runbooks.core.plan import Plan, Step
from runbooks.core.report import Report
from runbooks.core.show import chat
from runbooks.core.verdict import Cause, Certainty, Diagnosis, State
from runbooks.notify.config import Notifications, Quiet
from runbooks.notify.link import BadLink, Ticket, form_token, proof, read, sign
from runbooks.notify.message import LINE, grouped, message_of
from runbooks.notify.text import body_of, digest_of, title_of
from tests.support.foreign import FOLLOWED, NASTY, diagnoses
from tests.support.receivers import Webhook

AT = datetime(2026, 3, 7, 3, 0, tzinfo=UTC)
KEY = b"k" * 32
BASE = "channels: {a: {url: {env: A}}, b: {url: {env: B}}}\ndefault: [a]\n"


def config(text: str) -> Notifications:
    return parse_yaml(text, Notifications, "notifications.yaml")


def report(outcome: Outcome = Outcome.WAITING, **more: object) -> Report:
    steps = tuple(Step(kind="k", owner="n", args={}, commands=("c",), effect=f"e{i}", loses="data") for i in range(9))
    cause = Cause(slug="c1", certainty=Certainty.CONFIRMED, subject="pid 1", evidence=("x",))
    d = Diagnosis(
        state=State.UNHEALTHY,
        headline="pid 1 is stuck",
        causes=(cause,),
        plans=(Plan(name="p", steps=steps, for_causes=("c1",)),),
        must_not=("reboot",),
        do_now=("ask bo",),
        waiting_costs=("2 GPUs",),
    )
    facts = {"id": "r", "runbook": "zombie-gpu", "target": "n", "fleet": "f", "mode": "approve", "headline": "pid 1 is stuck"}
    return Report.model_validate(
        facts | {"outcome": outcome, "started_at": AT, "ended_at": AT, "diagnosis": d, "evidence": {}, "limits": {}} | more
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (BASE.replace("{env: A}", "slack://xoxb-hunter2"), "line 1: channels.a: url: an address is a secret"),
        (BASE.replace("{env: A}", "{env: A, file: b}"), "give exactly one of env, secret, file (given: env, file)"),
        (BASE + "routes: [{match: ['x'], to: [a]}]\n", "no matcher"),
        (BASE + "routes: [{match: ['x=\"1\"'], to: [c]}]\n", "routes.0.to: no channel 'c'; there are: a, b"),
        (BASE + 'quiet: {zone: Mars/Base, begin: "22:00", end: "07:00"}\n', "no time zone 'Mars/Base'"),
        (BASE + 'quiet: {zone: UTC, begin: "25:00", end: "07:00"}\n', "quiet.begin: must be a time of day"),
        (BASE + 'quiet: {zone: UTC, begin: "07:00", end: "07:00"}\n', "the same time"),
        ("channels: {a: {url: {env: A}}}\n", "default: required"),
        (BASE + "links: {gateway: 'javascript:x'}\n", "links.gateway"),
    ],
)
def test_errors_name_file_field_and_fix_and_no_secret(text: str, says: str) -> None:
    with pytest.raises(ConfigError) as found:
        config(text)
    assert says in str(found.value)
    assert str(found.value).startswith("notifications.yaml: ")
    assert "hunter2" not in str(found.value)


def test_routes_first_match_go_on_and_default() -> None:
    c = config(
        BASE + "routes:\n- {match: ['severity=\"critical\"'], to: [b], go_on: true}\n- {match: ['fleet=~\"lab.*\"'], to: []}\n"
    )
    assert c.channels_for({"severity": "critical", "fleet": "lab1"}) == ("b",)
    assert c.channels_for({"severity": "info", "fleet": "lab1"}) == ()
    assert c.channels_for({"severity": "info", "fleet": "prod"}) == ("a",)


def test_quiet_hours_over_midnight_and_daylight_saving() -> None:
    q = Quiet(zone="Europe/Berlin", begin="22:00", end="07:00")
    berlin = ZoneInfo("Europe/Berlin")
    night = datetime(2026, 3, 28, 23, 0, tzinfo=berlin)  # the clocks go forward in this night
    until = q.until(night)
    assert until == datetime(2026, 3, 29, 7, 0, tzinfo=berlin)
    assert until is not None
    assert until.timestamp() - night.timestamp() == 7 * 3600
    assert q.until(datetime(2026, 3, 29, 7, 0, tzinfo=berlin)) is None
    assert q.until(datetime(2026, 3, 28, 12, 0, tzinfo=berlin)) is None


@given(st.datetimes(datetime(2026, 1, 1), datetime(2027, 1, 1), timezones=st.just(UTC)))  # noqa: DTZ001
def test_quiet_hours_always_end(now: datetime) -> None:
    q = Quiet(zone="America/New_York", begin="20:30", end="06:15")
    until = q.until(now)
    assert until is None or now < until <= now + timedelta(hours=11)


def test_every_outcome_has_words_and_a_severity() -> None:
    assert set(TABLE) == set(Outcome)


def test_a_waiting_plan_as_text() -> None:
    m = message_of(report(), offered=("p",), approval_key="k-0", expires=AT)
    text = body_of(m, {"Report": "http://x/y"})
    for part in ("pid 1 is stuck", "Decide: approve or reject", "- ask bo", "2 GPUs", "Do NOT:\n- reboot", "http://x/y"):
        assert part in text
    assert len(m.choices[0].steps) == 5  # five lines on a phone
    assert "5 more steps" in m.choices[0].steps[-1]
    assert title_of(m).startswith(f"[{m.incident}] ")


@pytest.mark.parametrize("outcome", [o for o in Outcome if o.row.closing])
def test_what_is_over_asks_for_nothing(outcome: Outcome) -> None:
    text = body_of(message_of(report(outcome)), {})
    assert "Do now" not in text
    assert "Do NOT" not in text


def test_one_incident_and_what_is_news() -> None:
    waiting = message_of(report(), approval_key="k-0")
    again = message_of(report(), approval_key="k-1")
    fixed = message_of(report(Outcome.FIXED))
    assert waiting.incident == again.incident == fixed.incident
    assert len({waiting.signature, again.signature, fixed.signature}) == 3
    other = message_of(report(target="m"), approval_key="k-9")
    assert grouped(waiting, ("m",)).incident == grouped(other, ("n",)).incident
    assert grouped(waiting, ("m",)).signature == grouped(other, ("n",)).signature


@given(st.text(max_size=50), st.text(max_size=50))
def test_any_text_stays_one_line_and_calls_nobody(target: str, headline: str) -> None:
    m = message_of(report(target=target, headline=headline + " @everyone <!channel>"))
    assert len(title_of(m).splitlines()) == 1
    text = body_of(m, {}) + digest_of([m] * 3, AT)[1]
    assert "<" not in text
    assert "@everyone" not in text


OURS = "https://gw.example/approve/eyJ.x"


@given(diagnosis=diagnoses(), guard=NASTY, target=NASTY)
@settings(max_examples=60, deadline=None)
def test_a_message_shows_commands_and_reasons_and_only_our_links_can_be_followed(
    diagnosis: Diagnosis, guard: str, target: str
) -> None:
    names = tuple(p.name for p in diagnosis.plans)
    found = report(diagnosis=diagnosis, guards=(guard,), target=target, headline=diagnosis.headline, title=target)
    m = message_of(found, offered=names, approval_key="k-0", expires=AT)
    body = body_of(m, {"Decide": OURS})
    assert body.count(OURS) == 1
    for text in (title_of(m), body.replace(OURS, ""), *digest_of([m], AT)):
        lines = text.split("\n")
        assert [(p.pattern, x) for x in lines for p in FOLLOWED if p.search(x)] == []
    assert [x for x in lines_of(found) if chat(x, LINE) not in body] == []


def lines_of(found: Report) -> list[str]:
    """Every reason, and of every plan that can be chosen the commands, effects and losses."""
    chosen = {p.name: p for p in found.diagnosis.plans}.values()
    steps = [s for p in chosen for s in p.steps]
    commands = [one_command(c) for s in steps for c in s.commands]
    return [*found.guards, found.headline, *(p.name for p in chosen), *commands]


def test_a_false_link_of_a_decision_leads_nowhere() -> None:
    evil = "Decide (only for ana; opening it decides nothing): https://evil.example/approve/x"
    m = message_of(report(headline=evil), offered=("p",), approval_key="k-0")
    body = body_of(m, {"Decide": OURS})
    assert re.findall(r"https?://\S+", body) == [OURS]
    assert "hxxps://evil[.]example/approve/x" in body


def test_many_commands_are_counted() -> None:
    step = Step(kind="k", owner="n", args={}, commands=tuple(f"rm {i}" for i in range(40)), effect="e", loses="data")
    plan = Plan(name="p", steps=(step,), for_causes=("c1",))
    found = report(diagnosis=report().diagnosis.model_copy(update={"plans": (plan,)}))
    body = body_of(message_of(found, offered=("p",)), {})
    assert "    rm 8\n    … and 31 more: see the report" in body


def test_a_digest_is_bounded() -> None:
    _, body = digest_of([message_of(report(Outcome.FIXED))] * 500, AT)
    assert len(body.splitlines()) == 41
    assert "460 more" in body


TICKET = Ticket(run="r", key="abc-0", person="ana ü", ends=AT)


def test_a_link_holds_what_was_signed() -> None:
    token = sign(TICKET, KEY)
    assert read(token, KEY) == TICKET
    assert TICKET.expired(AT)
    assert not TICKET.expired(AT - timedelta(seconds=1))
    assert form_token(token, KEY) != form_token(token + "x", KEY)
    changed = [TICKET.model_copy(update={f: "x"}) for f in ("run", "key", "person")]
    assert len({proof(t, "approve", "p", KEY) for t in (TICKET, *changed)}) == 4
    assert proof(TICKET, "approve", "p", KEY) != proof(TICKET, "reject", "p", KEY)
    with pytest.raises(ValueError, match="32 bytes"):
        sign(TICKET, b"short")


@given(st.one_of(st.text(max_size=300), st.binary(max_size=100).map(lambda b: b.decode("latin-1"))))
def test_what_was_not_signed_is_no_link(token: str) -> None:
    with pytest.raises(BadLink):
        read(token, KEY)


@given(st.integers(0, 200), st.characters(codec="ascii"))
def test_a_changed_character_makes_a_link_void(at: int, to: str) -> None:
    token = sign(TICKET, KEY)
    changed = token[: at % len(token)] + to + token[at % len(token) + 1 :]
    if changed != token:
        with pytest.raises(BadLink):
            read(changed, KEY)


def test_notify_test_says_what_each_channel_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hook = Webhook()
    monkeypatch.setenv("GOOD", f"json://127.0.0.1:{hook.port}/hunter2-hunter2")
    monkeypatch.setenv("BAD", "json://127.0.0.1:9/hunter2-hunter2")
    path = tmp_path / "n.yaml"
    path.write_text("channels: {good: {url: {env: GOOD}}, bad: {url: {env: BAD}}, none: {url: {env: N}}}\ndefault: [good]\n")
    try:
        assert main(["notify", "test", "--file", str(path)]) == 1
        said = capsys.readouterr().out
        assert "sent    good: sent" in said
        assert "FAILED  none: environment variable N is not set here" in said
        assert "FAILED  bad: " in said
        assert "hunter2" not in said
        assert main(["notify", "test", "--file", str(path), "--to", "good"]) == 0
        assert [m["title"] for m in hook.got] == ["[test] gpu-runbooks: a test message"] * 2
        capsys.readouterr()
        assert main(["notify", "check", "--file", str(path), "--label", "severity=critical"]) == 0
        assert 'severity="critical": good' in capsys.readouterr().out
    finally:
        hook.close()
