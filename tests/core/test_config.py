"""Bad fleet and policy files: every message names file, line and field, and says what is allowed."""

import time

import pytest

from runbooks.core.config import LARGEST, ConfigError, parse_yaml
from runbooks.core.fleet import Fleet
from runbooks.core.fleet_names import names_of, unnamed
from runbooks.core.policy import Policy
from tests.support.cost import cpu_seconds

GOOD_NODE = "nodes: [{name: a, local: true}]\n"

BAD_FLEETS = {
    "empty": ("", ["f.yaml: the file is empty"]),
    "only a comment": ("# nothing\n", ["the file is empty"]),
    "a list": ("- a\n", ["line 1: expected a mapping, found a list"]),
    "text": ("hello\n", ["line 1: expected a mapping, found text"]),
    "no nodes": ("name: x\n", ["line 1: nodes: required, but missing"]),
    "nodes empty": ("nodes: []\n", ["line 1: nodes: must have at least one entry"]),
    "nodes nothing": ("nodes:\n", ["line 1: nodes: must be a list; found nothing"]),
    "unknown field": ("nodes:\n- name: a\n  hots: x\n", ["line 3: nodes.0.hots: unknown field; there are:", "host"]),
    "unknown top field": (GOOD_NODE + "polcy: 1\n", ["line 2: polcy: unknown field; there are: ", "nodes"]),
    "node without a way": ("nodes:\n- name: a\n", ["line 2: nodes.0: give `host`, or `local: true`"]),
    "node with two ways": ("nodes:\n- {name: a, local: true, host: b}\n", ["either local or has a host, not both"]),
    "port too high": (
        "nodes:\n- name: a\n  host: h\n  port: 70000\n",
        ["line 4: nodes.0.port: ", "65535; found 70000"],
    ),
    "port text": ("nodes:\n- name: a\n  host: h\n  port: ssh\n", ["line 4: nodes.0.port:", "found 'ssh'"]),
    "name a number": (
        "nodes:\n- name: 7\n  local: true\n",
        ["line 2: nodes.0.name: must be text: put it in quotes; found 7"],
    ),
    "name on": (
        "nodes:\n- name: on\n  local: true\n",
        ["line 2: nodes.0.name: must be text: put it in quotes; found True"],
    ),
    "host a shell": (
        "nodes:\n- name: a\n  host: 'x; rm'\n",
        ["line 3: nodes.0.host: not a host name or address; found 'x; rm'"],
    ),
    "host an option": ("nodes:\n- name: a\n  host: -oProxyCommand=x\n", ["line 3: nodes.0.host: not a host name"]),
    "no name of a block": (
        "nodes:\n- name: a\n  host: h\n  key: {secret: Foo Bar}\n",
        ["line 4: nodes.0.key.secret: must match pattern '^[a-z0-9-]+$'; found 'Foo Bar'"],
    ),
    "two keys": (
        "nodes:\n- name: a\n  host: h\n  key: {file: x, agent: true}\n",
        ["line 4: nodes.0.key: give exactly one of"],
    ),
    "names twice": ("nodes:\n- {name: a, local: true}\n- {name: a, host: h}\n", ["line 1: (whole file):", "a"]),
    "key twice": ("nodes: []\nname: a\nname: b\n", ["line 3, column 1: 'name' is given twice (first in line 2)"]),
    "key twice deep": (
        "nodes:\n- name: a\n  host: h\n  host: i\n",
        ["line 4, column 3: 'host' is given twice (first in line 3)"],
    ),
    "tab": ("nodes:\n\t- name: a\n", ["line 2", "use spaces, not tabs"]),
    "unclosed": ("nodes: [\n", ["f.yaml: line 2"]),
    "two documents": (GOOD_NODE + "---\n" + GOOD_NODE, ["line 2", "but found another document"]),
    "python tag": (
        "nodes: !!python/object/apply:os.system [id]\n",
        ["line 1, column 8", "could not determine a constructor"],
    ),
    "list as key": ("? [a, b]\n: c\n", ["line 1", "a key must be plain text"]),
    "number as key": ("1: x\n" + GOOD_NODE, ["f.yaml: line 1"]),
    "impossible date": (GOOD_NODE + "name: 2024-13-99\n", ["f.yaml: line 2, column 7: '2024-13-99' is no date; put it in quotes"]),
    "no date": (GOOD_NODE + "name: !!timestamp x\n", ["line 2, column 7: 'x' is no date"]),
    "endless number": (GOOD_NODE + f"name: 0x{'f' * 5000}\n", ["line 2, column 7: a number of more than 18 digits"]),
    "too many digits": (GOOD_NODE + f"name: {'9' * 5000}\n", ["line 2, column 7: '999", "is no number"]),
    "too many parts": (GOOD_NODE + f"name: {'1:' * 300}1.5\n", ["line 2, column 7: '1:1", "is no number"]),
    "neither yes nor no": (GOOD_NODE + "name: !!bool x\n", ["line 2, column 7: 'x' is neither yes nor no"]),
    "set as key": ("? !!set {a}\n: c\n", ["line 1, column 3: a key must be plain text"]),
    "nul byte": ("nodes: \0\n", ["f.yaml: not YAML:"]),
    "anchor of itself": ("nodes: &a [*a]\n", ["the anchor refers to itself"]),
    "unknown anchor": ("nodes: *b\n", ["line 1", "undefined alias"]),
    "deep": ("nodes: " + "[" * 5000 + "]" * 5000, ["f.yaml: "]),
    "deep blocks": ("- " * 50000 + "\n", ["f.yaml: "]),
    "regex": (GOOD_NODE + "jobs:\n- name: j\n  match: '(abc'\n", ["line 4: jobs.0.match: not a regular expression"]),
    "regex too deep": (GOOD_NODE + f"jobs:\n- {{name: j, match: '{'(' * 5000}'}}\n", ["match: not a regular expression: nested too deep"]),
    "regex too often": (GOOD_NODE + "jobs:\n- {name: j, match: 'abc{99999999999}'}\n", ["match: not a regular expression: the rep"]),
    "regex of a worker": (
        GOOD_NODE + "orchestrator:\n  process:\n    match: '(abc'\n",
        ["line 4: orchestrator.process.match: not a regular expression"],
    ),
    "regex all": (GOOD_NODE + "jobs:\n- name: j\n  match: '.*'\n", ["line 4: jobs.0.match:"]),
    "job of no node": (GOOD_NODE + "jobs:\n- {name: j, match: train, nodes: [zz]}\n", ["no node zz; there are: a"]),
    "progress kind": (
        GOOD_NODE + "jobs:\n- name: j\n  match: train\n  progress:\n  - kind: file\n",
        ["line 6: jobs.0.progress.0.kind: must be 'files', 'sqlite', 'log' or 'none'; found 'file'"],
    ),
    "progress relative": (
        GOOD_NODE + "jobs:\n- name: j\n  match: train\n  progress:\n  - {kind: log, path: x}\n",
        ["line 6: jobs.0.progress.0: kind log needs an absolute `path`"],
    ),
    "leader url": (GOOD_NODE + "leader:\n  url: ftp://x\n", ["line 3: leader.url:", "found 'ftp://x'"]),
    "keep": (
        GOOD_NODE + "reports:\n  keep: 1\n",
        ["line 3: reports.keep: must be greater than or equal to 2; found 1"],
    ),
    "labels": (
        "nodes:\n- name: a\n  local: true\n  labels: {zone: 3}\n",
        ["line 4: nodes.0.labels.zone: must be text"],
    ),
}

BAD_POLICIES = {
    "mode": ("mode: yes\n", ["line 1: mode: must be 'diagnose', 'approve' or 'auto'; found True"]),
    "kind mode": (
        "kinds:\n  kill:\n    mode: automatic\n",
        ["line 3: kinds.kill.mode: must be 'diagnose', 'approve' or 'auto'; found 'automatic'"],
    ),
    "default auto": ("default:\n  mode: auto\n", ["auto is only allowed per kind, by name"]),
    "share": ("budget:\n  share: 1.5\n", ["line 2: budget.share: must be less than or equal to 1; found 1.5"]),
    "cooldown": ("kinds:\n  kill: {cooldown_s: 10m}\n", ["line 2: kinds.kill.cooldown_s: must be a valid number"]),
    "unknown kind field": (
        "kinds:\n  kill:\n    retries: 3\n",
        ["line 3: kinds.kill.retries: unknown field; there are: "],
    ),
}


@pytest.mark.parametrize(("text", "says"), BAD_FLEETS.values(), ids=BAD_FLEETS.keys())
def test_bad_fleet(text: str, says: list[str]) -> None:
    with pytest.raises(ConfigError) as e:
        parse_yaml(text, Fleet, "f.yaml")
    message = str(e.value)
    assert all(line.startswith("f.yaml: ") for line in message.splitlines()), message
    assert not [part for part in says if part not in message], message


@pytest.mark.parametrize(("text", "says"), BAD_POLICIES.values(), ids=BAD_POLICIES.keys())
def test_bad_policy(text: str, says: list[str]) -> None:
    with pytest.raises(ConfigError) as e:
        parse_yaml(text, Policy, "p.yaml")
    assert not [part for part in says if part not in str(e.value)], str(e.value)


def test_every_fault_is_named_once() -> None:
    text = "nodes:\n- name: a b\n  host: h\n- name: c\n  host: d\n  port: 0\n  nmae: x\n"
    with pytest.raises(ConfigError) as e:
        parse_yaml(text, Fleet, "f.yaml")
    lines = str(e.value).splitlines()
    assert [line.split(": ")[1] for line in lines] == ["line 2", "line 6", "line 7"], lines


def test_a_list_is_not_called_short_because_its_items_are_wrong() -> None:
    with pytest.raises(ConfigError) as e:
        parse_yaml("nodes:\n- name: a\n", Fleet, "f.yaml")
    assert "at least" not in str(e.value)


def test_value_of_an_unknown_field_is_not_shown() -> None:
    with pytest.raises(ConfigError) as e:
        parse_yaml("nodes:\n- {name: a, host: h, password: hunter2}\n", Fleet, "f.yaml")
    assert "password: unknown field" in str(e.value)
    assert "hunter2" not in str(e.value)


def test_aliases_that_multiply_are_refused_quickly() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 10)]

    def refused() -> None:
        with pytest.raises(ConfigError, match="expand to more than"):
            parse_yaml("\n".join(lines), Fleet, "f.yaml")

    assert cpu_seconds(refused, 1) < 1


def test_a_huge_file_is_refused_quickly() -> None:
    began = time.process_time()
    with pytest.raises(ConfigError, match=r"larger than 2 MiB; is it the right file\?"):
        parse_yaml("# x\n" * (10 << 18), Fleet, "f.yaml")
    with pytest.raises(ConfigError):
        parse_yaml("a: b\n" * (LARGEST // 6), Fleet, "f.yaml")
    assert time.process_time() - began < 20


def test_anchors_and_merge_work_as_people_use_them() -> None:
    text = """
nodes:
- &base {name: a, host: h1, user: root, port: 2222}
- <<: *base
  name: b
  host: h2
"""
    fleet = parse_yaml(text, Fleet, "f.yaml")
    assert [(n.name, n.host, n.port) for n in fleet.nodes] == [("a", "h1", 2222), ("b", "h2", 2222)]


def test_byte_order_mark_and_windows_lines() -> None:
    assert parse_yaml("\ufeff" + GOOD_NODE.replace("\n", "\r\n"), Fleet, "f.yaml").nodes[0].name == "a"


def test_the_name_of_a_fleet_without_one() -> None:
    """Its own, and the one under which its older records stand."""
    assert names_of(unnamed("1a2b3c4d")) == ("default-1a2b3c4d", "default")
    assert names_of("default") == ("default",)
    assert names_of("gpu") == ("gpu",)


@pytest.mark.parametrize("argv", [["mysql", "-pSwordfish77"], ["run", "--token", "hf_" + "a1B2" * 9], ["curl", "https://u:Swordfish77@h/x"]])
def test_no_command_of_the_fleet_file_may_hold_a_secret(argv: list[str]) -> None:
    text = f"{GOOD_NODE}jobs: [{{name: j, match: train, restart: {argv}}}]\n"
    with pytest.raises(ConfigError, match="a secret stands in this command line") as said:
        parse_yaml(text, Fleet, "f.yaml")
    assert "jobs.0.restart" in str(said.value)
    assert "Swordfish77" not in str(said.value)
