"""Payloads, matchers, mapping, targets and keys of alerts: pure, in milliseconds."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from deployments.gateway.files import DEFAULT_ALERTS, load_alerts
from flows.specs import SLUGS, SPECIAL
from runbooks.alerts.alert import Alert, AlertSource, BadPayload, Status
from runbooks.alerts.mapping import AlertsFile, Unusable, WantedRun, wanted
from runbooks.alerts.matchers import checked, matches
from runbooks.alerts.payloads import parse
from runbooks.alerts.targets import NoTarget, resolve
from runbooks.core.config import ConfigError, parse_yaml
from runbooks.core.fleet import Fleet, Node
from runbooks.core.knowledge import load_runbook
from tests.support.cost import cpu_seconds

AT = "2026-01-31T12:00:00Z"
DATA = Path(__file__).parent / "payloads"


def one(source: AlertSource, data: Any) -> Alert:
    [alert] = parse(source, json.dumps(data).encode())
    return alert


@pytest.mark.parametrize("source", list(AlertSource))
def test_a_payload_of_each_sender(source: AlertSource) -> None:
    alerts = parse(source, (DATA / f"{source}.json").read_bytes())
    assert alerts
    assert all(a.labels["node"] == "node-a" and a.starts_at.tzinfo for a in alerts)
    assert alerts[0].status is Status.FIRING
    assert len({a.key for a in alerts}) == len(alerts)


def test_the_key_is_fingerprint_and_start_time() -> None:
    def alert(**more: Any) -> Alert:
        return one(AlertSource.GENERIC, {"name": "X", "starts_at": AT, "fingerprint": "f"} | more)

    assert alert().key == alert(starts_at="2026-01-31T13:00:00+01:00", labels={"replica": "b"}).key
    assert alert().key != alert(fingerprint="g").key
    assert alert().key != alert(starts_at="2026-01-31T12:00:01Z").key
    assert alert().mark == alert(starts_at="2026-02-01T00:00:00Z").mark


BAD: list[tuple[AlertSource, Any, str]] = [
    (AlertSource.ALERTMANAGER, [], "object"),
    (AlertSource.ALERTMANAGER, {"version": "3", "alerts": []}, "version"),
    (AlertSource.ALERTMANAGER, {"version": "4"}, "alerts"),
    (AlertSource.ALERTMANAGER, {"alerts": [1]}, "alerts.0"),
    (AlertSource.ALERTMANAGER, {"alerts": [{"status": "on", "labels": {"a": "b"}, "startsAt": AT}]}, "alerts.0.status"),
    (AlertSource.ALERTMANAGER, {"alerts": [{"status": "firing", "labels": {}, "startsAt": AT}]}, "labels"),
    (AlertSource.ALERTMANAGER, {"alerts": [{"status": "firing", "labels": {"a": []}, "startsAt": AT}]}, "labels.a"),
    (AlertSource.ALERTMANAGER, {"alerts": [{"status": "firing", "labels": {"a": "b"}, "startsAt": "now"}]}, "startsAt"),
    (AlertSource.ALERTMANAGER, {"alerts": [{"status": "firing", "labels": {"a": "b"}, "startsAt": 3}]}, "startsAt"),
    (AlertSource.ALERTMANAGER, {"alerts": [{"status": "firing", "labels": {"a": "b"}, "startsAt": "2026-01-01T00:00:00"}]}, "zone"),
    (AlertSource.GENERIC, {"name": "x", "starts_at": AT, "nmae": 1}, "nmae"),
    (AlertSource.GENERIC, {"starts_at": AT}, "name"),
    (AlertSource.GENERIC, {"name": "x"}, "starts_at"),
    (AlertSource.PAGERDUTY, {"event": {}}, "event_type"),
    (AlertSource.PAGERDUTY, {"event": {"event_type": "incident.triggered", "data": {}}}, "event.data.id"),
]


@pytest.mark.parametrize(("source", "data", "names"), BAD)
def test_a_bad_payload_names_the_field(source: AlertSource, data: Any, names: str) -> None:
    with pytest.raises(BadPayload, match=names):
        parse(source, json.dumps(data).encode())


@pytest.mark.parametrize("body", [b"", b"\xff", b"{", b"[" * 100_000, b'{"a":NaN}', b'{"a":' + b"9" * 5000 + b"}", b"null"])
def test_what_is_no_json_is_said_so(body: bytes) -> None:
    with pytest.raises(BadPayload):
        parse(AlertSource.GENERIC, body)


def test_labels_become_one_printable_line() -> None:
    alert = one(AlertSource.GENERIC, {"name": "a\nb\x1b[2J\u202e\ud800c", "starts_at": AT, "labels": {"n": 3, "yes": True}})
    assert alert.name.isprintable()
    assert (alert.labels["n"], alert.labels["yes"]) == ("3", "true")


def test_pagerduty_reopened_is_a_new_time_and_others_hold_no_alert() -> None:
    data = json.loads((DATA / "pagerduty.json").read_text())
    first = one(AlertSource.PAGERDUTY, data)
    data["event"] |= {"event_type": "incident.reopened", "occurred_at": "2026-02-02T00:00:00Z"}
    assert one(AlertSource.PAGERDUTY, data).key != first.key
    for kind in ("incident.acknowledged", "pagey.ping", "service.updated"):
        data["event"]["event_type"] = kind
        assert parse(AlertSource.PAGERDUTY, json.dumps(data).encode()) == ()


MATCHERS = [
    ('a="b"', {"a": "b"}, True),
    ("a=b", {"a": "b"}, True),
    ('a = "b"', {"a": "bb"}, False),
    ('a!="b"', {}, True),
    ('a=""', {}, True),
    ('a=~"b|c"', {"a": "c"}, True),
    ('a=~"b"', {"a": "bb"}, False),
    ('a=~"b.*"', {"a": "b\nx"}, True),
    ('a!~"b.*"', {"a": "c"}, True),
    (r'a="x\"y\\z"', {"a": 'x"y\\z'}, True),
    ('a=~"(?i:gpu)"', {"a": "GPU"}, True),
]


@pytest.mark.parametrize(("matcher", "labels", "holds"), MATCHERS)
def test_matchers_are_alertmanagers(matcher: str, labels: dict[str, str], holds: bool) -> None:
    assert matches(checked(matcher), labels) is holds


@pytest.mark.parametrize("bad", ["", "a", "a==b\"", "1a=b", 'a=~"("', 'a=~"(?=x)"', 'a=~"' + "x" * 600 + '"'])
def test_a_bad_matcher_says_how(bad: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        checked(bad)


@pytest.mark.parametrize("pattern", ["(x+)+", "((x+))+", "(x|x)*", "(x*)*y", "(?:x{0,9}){0,9}z"])
def test_no_pattern_takes_long_on_a_hostile_label(pattern: str) -> None:
    matcher, labels = checked(f'a=~"{pattern}"'), {"a": "x" * 20_000 + "!"}
    assert not matches(matcher, labels)
    assert cpu_seconds(lambda: matches(matcher, labels), 1) < 1  # re needs longer than the age of the universe


ROWS = """
rules:
  - {name: gpu, match: ['alertname="Gpu"', 'team!="x"'], runbook: zombie-gpu, target: '{{ instance | host }}', mode: auto}
  - {name: both, match: ['alertname=~"Both|Gpu2"'], runbook: data-check, target: '{{ node }}', go_on: true}
  - {name: late, match: ['alertname="Both"'], runbook: ray-job, target: "{{ labels['my-node'] | default('h') }}", options: {job: '{{ j }}'}}
"""


def rows(**labels: str) -> tuple[WantedRun | Unusable, ...]:
    return wanted(one(AlertSource.GENERIC, {"labels": labels, "starts_at": AT}), parse_yaml(ROWS, AlertsFile, "rows.yaml"))


def test_the_first_row_that_matches_is_taken() -> None:
    [row] = rows(alertname="Gpu", instance="node-a:9400")
    assert isinstance(row, WantedRun)
    assert (row.target, row.mode.value) == ("node-a", "auto")
    assert rows(alertname="Gpu", team="x", instance="i") == ()
    one_, two = rows(alertname="Both", node="n", j="7")
    assert isinstance(one_, WantedRun)
    assert isinstance(two, WantedRun)
    assert (one_.target, two.target, two.options) == ("n", "h", {"job": "7"})


def test_a_label_is_never_a_template() -> None:
    [row] = rows(alertname="Gpu", instance="{{ 7 * 7 }}")
    assert isinstance(row, WantedRun)
    assert row.target == "{{ 7 * 7 }}"


@pytest.mark.parametrize("labels", [{"alertname": "Gpu"}, {"alertname": "Gpu", "instance": ""}, {"alertname": "Gpu2"}])
def test_a_target_that_comes_out_empty_starts_nothing(labels: dict[str, str]) -> None:
    [row] = rows(**labels)
    assert isinstance(row, Unusable)


@pytest.mark.parametrize("template", ["{{ node + 1 }}", "{{ 1 / (node | default(0)) }}", "{{ node.x.y }}", "{{ node | replace }}"])
def test_a_template_that_cannot_be_filled_in_starts_nothing(template: str) -> None:
    file = parse_yaml(f"rules: [{{name: r, match: ['node=a'], runbook: zombie-gpu, target: '{template}'}}]", AlertsFile, "rows.yaml")
    [row] = wanted(one(AlertSource.GENERIC, {"labels": {"node": "a"}, "starts_at": AT}), file)
    assert isinstance(row, Unusable)


BROKEN = [
    ("rules: []", "rules"),
    ("rules: [{name: a, match: ['x'], runbook: zombie-gpu, target: t}]", "line 1: rules.0.match.0"),
    ("rules: [{name: a, match: ['x=y'], runbook: nope, target: t}]", "no runbook 'nope'"),
    ("rules: [{name: a, match: ['x=y'], runbook: zombie-gpu, target: t, options: {jo: b}}]", "zombie-gpu has no such option"),
    ("rules: [{name: a, match: ['x=y'], runbook: ray-job, target: t, options: {jobb: b}}]", "no such option; there are: job; nearest: job"),
    ("rules: [{name: a, match: ['x=y'], runbook: zombie-gpu, target: '{{'}]", "rules.0.target"),
    (f"rules: [{{name: a, match: ['x=y'], runbook: zombie-gpu, target: '{{{{ {'(' * 480}'}}]", "not a template: nested too deep"),
    (f"rules: [{{name: a, match: ['x={'y' * 5000}'], runbook: zombie-gpu, target: t}}]", "longer than 5000 characters"),
    ("rules: [{name: a, match: [], runbook: zombie-gpu, target: t}]", "rules.0.match"),
    ("rules: [{name: a, match: ['x=y'], runbook: zombie-gpu, target: t, mod: auto}]", "mod"),
    ("rules:\n- &a {name: a, match: ['x=y'], runbook: zombie-gpu, target: t}\n- *a", "given twice"),
]


@pytest.mark.parametrize(("text", "says"), BROKEN)
def test_a_broken_file_names_file_and_field(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "alerts.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=says.replace(".", r"\.")) as e:
        load_alerts(str(path))
    assert str(path) in str(e.value)


def test_the_file_that_comes_along_maps_alerts_to_runbooks() -> None:
    """A new runbook needs no alert of its own; of those that act none is without one."""
    mapped = {r.runbook for r in load_alerts(DEFAULT_ALERTS).rules}
    assert mapped <= set(SLUGS)
    assert mapped >= {slug for slug in SLUGS if slug in SPECIAL or load_runbook(slug).actions}
    assert {r.mode.value for r in load_alerts(DEFAULT_ALERTS).rules} == {"diagnose"}


FLEET = Fleet(
    name="f",
    nodes=(
        Node(name="node-a", host="node-a.example"),
        Node(name="b", host="203.0.113.7"),
        Node(name="c1", host="gpu.one.example"),
        Node(name="c2", host="gpu.two.example"),
    ),
)
TARGETS = [
    ("node-a", "node-a"),
    ("node-a:9400", "node-a"),
    ("node-a.example:9400", "node-a"),
    ("NODE-A.example", "node-a"),
    ("203.0.113.7:9400", "b"),
    ("gpu.two.example", "c2"),
    ("worker/x-1", "worker/x-1"),
]


@pytest.mark.parametrize(("text", "name"), TARGETS)
def test_a_machine_is_found_by_name_or_address(text: str, name: str) -> None:
    assert resolve(text, FLEET, ("worker",)) == name


HOSTILE = ["", "*", "all", "gpu", "node-b", "node-a ", "node-a;x", "root@node-a", "label:zone=eu", "worker/", "worker/../x"]
HOSTILE += ["worker/$(x)", "worker/a/b", "node-a\n", "-oProxyCommand=x", "node-a.other.example", "203.0.113", "other/x"]


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_else_is_a_target(text: str) -> None:
    with pytest.raises(NoTarget):
        resolve(text, FLEET, ("worker",))


def test_times_are_compared_in_utc() -> None:
    alert = one(AlertSource.GENERIC, {"name": "X", "starts_at": "2026-01-31T13:00:00+01:00"})
    assert alert.starts_at == datetime(2026, 1, 31, 12, tzinfo=UTC)


def test_the_published_schema_is_what_the_parser_takes() -> None:
    import jsonschema  # type: ignore[import-untyped]

    schema = json.loads((Path(__file__).parents[2] / "runbooks/alerts/generic.schema.json").read_text())
    good = json.loads((DATA / "generic.json").read_text())
    jsonschema.validate(good, schema)
    jsonschema.validate(good["alerts"][0], schema)
    for source, data, _ in BAD:
        if source is AlertSource.GENERIC:
            with pytest.raises(jsonschema.ValidationError):
                jsonschema.validate(data, schema)
