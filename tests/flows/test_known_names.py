"""Every reader of a file refuses names that nothing here knows, in the same words, before anything runs."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from flows.config import load_fleet, load_policy
from runbooks.core.config import ConfigError
from tests.deployments.test_cli import call
from tests.support.commands import leaves

BAD_FLEET = (
    "nodes:\n- {name: a, local: true}\nlimits:\n  zombie-gpu: {idel_s: 3, idle_s: soon}\n  zomby-gpu: {}\n"
    "  host-limits:\n    disk_confirmed_share: 50\n    possible_share: -0.1\n    clock_possible_s: -1\n"
)
FLEET_SAYS = (
    "line 4: limits.zombie-gpu.idel_s: unknown limit; there are: ",
    "nearest: idle_s",
    "line 4: limits.zombie-gpu.idle_s: must be a valid number",
    "line 5: limits.zomby-gpu: no such runbook; there are: ",
    "line 7: limits.host-limits.disk_confirmed_share: must be a share between 0 and 1 (share); found 50",
    "line 8: limits.host-limits.possible_share: must be a share between 0 and 1 (share); found -0.1",
    "line 9: limits.host-limits.clock_possible_s: must not be negative; found -1",
    "nearest: zombie-gpu",
)
BAD_POLICY = "kinds:\n  terminate-proceses: {mode: auto}\n"
POLICY_SAYS = ("line 2: kinds.terminate-proceses: no such kind of action; there are: ", "nearest: terminate-processes")


def test_a_fleet_file_names_each_unknown_limit_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_text(BAD_FLEET)
    with pytest.raises(ConfigError) as e:
        load_fleet(str(path))
    assert [says for says in FLEET_SAYS if says not in str(e.value)] == []
    assert all(line.startswith(f"{path}: line ") for line in str(e.value).splitlines())


def test_a_policy_names_an_unknown_kind_of_action(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(BAD_POLICY)
    with pytest.raises(ConfigError) as e:
        load_policy(str(path))
    assert [says for says in POLICY_SAYS if says not in str(e.value)] == []


def test_a_file_that_is_not_there_names_the_nearest_beside_it(tmp_path: Path) -> None:
    (tmp_path / "fleet.yaml").write_text("nodes: [{name: a, local: true}]\n")
    with pytest.raises(ConfigError, match=r"No such file.*there are: fleet\.yaml; nearest: fleet\.yaml"):
        load_fleet(str(tmp_path / "flet.yaml"))


def test_whatever_lists_the_names_that_there_are_offers_the_nearest() -> None:
    """Through the one function that does both: a list of its own offers none."""
    root = Path(__file__).parents[2]
    files = [p for top in ("deployments", "flows", "tasks", "runbooks") for p in (root / top).rglob("*.py")]
    assert [p.name for p in files if "there are: {" in p.read_text(encoding="utf-8")] == ["names.py"]


BAD_ALERTS = "rules:\n- {name: a, match: ['alertname=b'], runbook: zombi-gpu, target: instance}\n"
ALERTS_SAYS = ("line 2: rules.0.runbook: rule a: no runbook 'zombi-gpu'; there are: ", "nearest: zombie-gpu")
BAD = {"FLEET": (BAD_FLEET, FLEET_SAYS), "POLICY": (BAD_POLICY, POLICY_SAYS), "ALERTS": (BAD_ALERTS, ALERTS_SAYS)}
OPTIONS = {"--fleet": "FLEET", "--policy": "POLICY", "--alerts": "ALERTS"}
GIVEN = {
    ("run",): ["zombie-gpu", "a"], ("bundle",): ["a"], ("fleet", "check"): ["GOOD"], ("alerts", "test"): ["EMPTY"], ("restore",): ["EMPTY"],
    ("logs",): ["orchestrator"],
}  # fmt: skip
MORE = {"run without a server": (("run",), ["zombie-gpu", "a", "--no-server"]), "up with alerts": (("up",), ["--gateway"])}


def _calls() -> Iterator[tuple[str, list[str]]]:
    """Every command of the parser with each option of it that takes one of these files, which is bad."""
    rows = [(" ".join(words), words, GIVEN.get(words, []), parser) for words, parser in leaves()]
    rows += [(name, words, given, dict(leaves())[words]) for name, (words, given) in MORE.items()]
    for name, words, given, parser in rows:
        for option in OPTIONS:
            if any(option in a.option_strings for a in parser._actions):
                fleet = ["--fleet", "GOOD"] if option != "--fleet" and any("--fleet" in a.option_strings for a in parser._actions) else []
                yield f"{name} {option}", [*words, *given, *fleet, option, OPTIONS[option]]
    yield "fleet check", ["fleet", "check", "FLEET"]


COMMANDS = dict(_calls())
MISSPELT = {
    "alerts test": ["alerts", "test", "BESIDE/alrts.json"], "fleet import": ["fleet", "import", "hosts", "BESIDE/host.txt"],
    "replay": ["replay", "BESIDE/alrts.json"], "restore": ["restore", "BESIDE/alrts.json"], "lab": ["lab", "zombi-gpu"],
    "option": ["run", "memory-pressure", "local", "--no-server", "--option", "bach=1"],
}  # fmt: skip


@pytest.mark.parametrize("words", MISSPELT.values(), ids=MISSPELT)
def test_a_misspelt_name_is_answered_with_the_nearest(tmp_path: Path, words: list[str]) -> None:
    for name in ("alerts.json", "hosts.txt"):
        (tmp_path / name).write_text("{}")
    done = call(*(w.replace("BESIDE", str(tmp_path)) for w in words), GPU_RUNBOOKS_HOME=str(tmp_path / "state"))
    assert done.returncode == 2, done
    assert "; nearest: " in done.stderr


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_every_command_refuses_them_before_anything_runs(tmp_path: Path, words: list[str]) -> None:
    files = {"GOOD": "nodes: [{name: a, local: true}]\n", "EMPTY": "{}", **{name: text for name, (text, _) in BAD.items()}}
    for name, text in files.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    argv = [str(tmp_path / f"{w}.yaml") if w in files else w for w in words]
    home = tmp_path / "state"
    done = call(*argv, GPU_RUNBOOKS_HOME=str(home))
    (says,) = [says for name, (_, says) in BAD.items() if name in words]
    assert done.returncode != 0, done
    assert [x for x in says if x not in done.stderr + done.stdout] == [], done
    assert "Traceback" not in done.stderr
    assert not (home / "server.json").exists()  # nothing was started


def test_the_parser_has_them() -> None:
    assert len(COMMANDS) > 20
