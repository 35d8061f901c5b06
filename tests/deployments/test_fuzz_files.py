"""No command ends as a bug or in a traceback for anything a file can hold: each node of a whole one is replaced in turn."""

import json
import os
import re
from collections.abc import Iterator
from functools import cache
from math import gcd
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from prefect.settings import PREFECT_API_URL, temporary_settings

from deployments import contact
from deployments.cli.ending import UNUSABLE
from deployments.cli.main import main
from deployments.cli.parser import build_parser
from deployments.errors import FAULT
from runbooks.core.knowledge import load_runbook
from tests.deployments.test_fleet_import import HOSTS_YAML, SSH_CONFIG
from tests.deployments.test_fleet_sources import ANSIBLE_INI, ANSIBLE_YAML, ETC_HOSTS, KUBERNETES, LIST, SLURM
from tests.runbooks.gpu import build as zombies
from tests.runbooks.host import test_situations as limits_of_hosts
from tests.runbooks.launch import test_situations as launches
from tests.support.commands import alone
from tests.support.silent_servers import refusing

MOST = int(os.environ.get("FUZZ_FILES", "200"))  # changed files of each kind
ROOT = Path(__file__).parents[2]
HERE = "@@here@@"
WITHOUT_A_PLACE = "the fleet file has no rendezvous"  # as far as a saved one is read here
NODES = {
    "a list": '["x"]', "text": '"text"', "nothing": "null", "a digit that is no number": '"²"', "no date": "2024-13-45",
    "nested deep": "[" * 300 + "]" * 300, "nested deeper": "[" * 3000 + "]" * 3000, "a mapping": '{"x": {"y": [{}]}}',
    "a large number": "1" + "0" * 400, "a larger number": "0x" + "f" * 5000, "beyond numbers": "1e999", "negative": "-1",
    "half a character": '"\\ud800"', "an open pattern": '"' + "(" * 900 + '"', "a repeated pattern": '"abc{99999999999}"',
    "a date": '"0001-01-01T00:00:00"', "a template": '"{{ node + 1 }}{{ 1 / 0 }}"', "an open template": '"{{ ' + "(" * 900 + '"',
    "no moment": '!!timestamp "x"', "no truth": '!!bool "x"', "no number": '!!int ""', "a set for a name": "{!!set {a}: 1}",
}  # fmt: skip
WORDS = (
    "²", "[x]", "text", "", "2024-13-45", "[" * 3000, "9" * 5000, '"', "'", "(", "{{ x", "%h%h", "\x1b[0m\x00", "[1:99999999]",
    "[1:99999][1:99999]", "~nobody/x", "../..", "**", "/", "-1", "\u2028", "a" * 5000, "٣", "all", "gpu",
)  # fmt: skip


class Kind(NamedTuple):
    """A kind of file: the command that reads it, and a whole one, as data or as lines."""

    command: tuple[str, ...]
    whole: Any


def report(runbook: str, evidence: Any) -> dict[str, Any]:
    """A report of that runbook with that evidence."""
    found = {"schema_version": 1, "id": "r", "runbook": runbook, "target": "a", "limits": load_runbook(runbook).limit_values()}
    return found | {"evidence": evidence.model_dump(mode="json"), "diagnosis": {"state": "healthy", "headline": "fine"}}


def example(name: str) -> Any:
    """The data of one of our example files."""
    return yaml.safe_load((ROOT / "deployments" / name).read_text(encoding="utf-8"))


ALERT = {"labels": {"alertname": "GpuZombie", "node": "a"}, "status": "firing", "startsAt": "2026-01-31T12:00:00Z", "fingerprint": "f"}
LISTED = {"version": "4", "groupKey": "g", "commonAnnotations": {"a": "b"}, "alerts": [ALERT]}
PAGED = {
    "event": {"id": "e", "event_type": "incident.triggered", "occurred_at": "2026-01-31T12:00:00Z",
              "data": {"id": "i", "title": "GpuZombie node=a", "created_at": "2026-01-31T12:00:00Z", "service": {"summary": "s"}}}
}  # fmt: skip
GENERIC = {"name": "GpuZombie", "labels": {"node": "a"}, "status": "firing", "starts_at": "2026-01-31T12:00:00Z"}
SAVED = {
    "rendezvous": "t", "endpoint": "http://e:2379", "backend": "etcd-v2", "run": "job", "saved_at": "2026-11-29T03:00:00Z",
    "keys": [{"key": "/torch/elastic/rendezvous/job", "value": "eA==", "ttl_s": 60, "modified": 7}],
}  # fmt: skip
HELD = {"gpus": [{"holders": {4242: 40}}], "processes": [{"pid": 4242}]}
KINDS = {
    "list": Kind(("fleet", "import", "list"), LIST),
    "etc-hosts": Kind(("fleet", "import", "etc-hosts"), ETC_HOSTS),
    "ssh-config": Kind(("fleet", "import", "ssh-config"), SSH_CONFIG),
    "ansible ini": Kind(("fleet", "import", "ansible"), ANSIBLE_INI),
    "slurm": Kind(("fleet", "import", "slurm"), SLURM),
    "ansible yaml": Kind(("fleet", "import", "ansible"), yaml.safe_load(ANSIBLE_YAML)),
    "hosts": Kind(("fleet", "import", "hosts"), yaml.safe_load(HOSTS_YAML)),
    "kubernetes": Kind(("fleet", "import", "kubernetes"), KUBERNETES),
    "fleet": Kind(("fleet", "check"), example("fleet.example.yaml")),
    "policy": Kind(("fleet", "check", "{fleet}", "--policy"), example("policy.example.yaml")),
    "notifications": Kind(("notify", "check", "--file"), example("notifications.example.yaml")),
    "alerts": Kind(("alerts", "test", "{alert}", "--alerts"), example("alerts.yaml")),
    "alertmanager": Kind(("alerts", "test"), LISTED),
    "grafana": Kind(("alerts", "test"), LISTED | {"orgId": 1, "version": "1"}),
    "pagerduty": Kind(("alerts", "test"), PAGED),
    "generic": Kind(("alerts", "test"), GENERIC),
    "saved rendezvous": Kind(("restore",), SAVED),
    "report of a GPU": Kind(("replay",), report("zombie-gpu", zombies.evidence(HELD))),
    "report of a host": Kind(("replay",), report("host-limits", limits_of_hosts.evidence({}))),
    "report of a launch": Kind(("replay",), report("distributed-setup", launches.evidence(launches.DOCS[0]["evidence"]))),
}


@pytest.fixture(autouse=True)
def without_a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """One that refuses; and the parser is built once."""
    monkeypatch.setattr(contact, "CONTACT_S", 0.05)
    monkeypatch.setattr("deployments.cli.main.build_parser", cache(build_parser))  # nine tenths of a call's time
    with alone(tmp_path, monkeypatch), refusing() as api, temporary_settings({PREFECT_API_URL: api}):
        monkeypatch.setenv("PREFECT_API_URL", api)
        yield


def holes(whole: Any) -> Iterator[Any]:
    """The same with a hole in place of each of its nodes and keys."""
    yield HERE
    if isinstance(whole, dict):
        for key, value in whole.items():
            yield {HERE if k == key else k: v for k, v in whole.items()}
            yield from (whole | {key: inner} for inner in holes(value))
    elif isinstance(whole, list):
        for i, value in enumerate(whole):
            yield from ([*whole[:i], inner, *whole[i + 1 :]] for inner in holes(value))


def changed(whole: Any) -> Iterator[str]:
    """Texts of it, each with one thing in one place that does not belong there."""
    if isinstance(whole, str):
        places = [m.span() for m in re.finditer(r"[^\s=:,@\"\[\]]+", whole)]
        yield from (whole[:a] + word + whole[b:] for a, b in places for word in WORDS)
    else:
        texts = [json.dumps(hole, default=str) for hole in holes(whole)]
        yield from (text.replace(f'"{HERE}"', node) for text in texts for node in NODES.values())


def some(texts: list[str]) -> list[str]:
    """At most MOST, from all over; every kind of change and every place is among them."""
    step = max(1, -(-len(texts) // MOST))
    while gcd(step, len(NODES) * len(WORDS)) > 1:
        step += 1
    return texts[::step]


@pytest.mark.parametrize("kind", KINDS)
def test_anything_in_any_place_of_a_file(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "fleet").write_text("nodes: [{name: a, local: true}]\n")
    (tmp_path / "alert").write_text(json.dumps(GENERIC))
    command, whole = KINDS[kind]
    argv = [word.format(fleet=tmp_path / "fleet", alert=tmp_path / "alert") for word in command]
    file, found = tmp_path / "file", []
    whole_text = whole if isinstance(whole, str) else json.dumps(whole, default=str)
    for text in [whole_text, *some(list(changed(whole)))]:
        file.write_text(text, encoding="utf-8", errors="replace")
        code = main([*argv, str(file)])
        out, err = capsys.readouterr()
        assert text != whole_text or code != UNUSABLE or WITHOUT_A_PLACE in err, err
        if code == FAULT or "Traceback" in out + err:
            found.append(f"{err[-300:]}\n    {text[:400]}")
    assert found == [], f"{len(found)} files:\n" + "\n".join(found[:8])
