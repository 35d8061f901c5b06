"""Freeze, breaker and budget against a store in memory: every answer whole, every edge of the window, every race of a place.

Written against mutants of the guards: what no assertion here notices, `make prove` reports. The real server's part (one asker
gets each place) is tested by the engine's tests and by races.
"""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flows import records
from flows.engine import guards
from flows.engine.guards import (
    FREEZE,
    breaker_name,
    check_breaker,
    check_freeze,
    reset_breaker,
    take_budget_token,
    trip,
)
from runbooks.core.fleet import Fleet, Node
from runbooks.core.policy import Budget, Policy
from tasks.context import ActionRefused
from tasks.remote.machine_identity import mark

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
FLEET = Fleet(name="my-fleet", nodes=tuple(Node(name=f"n{i}", host=f"h{i}") for i in range(5)))
POLICY = Policy(budget=Budget(nodes=2, window_s=600))
FRESH = "gpu_runbooks_budget_from_my_fleet"


class Store:
    """What the guards ask of the server, in memory."""

    def __init__(self) -> None:
        self.kept: dict[str, dict[str, Any]] = {}
        self.runs: dict[str, SimpleNamespace] = {}
        self.created: list[dict[str, Any]] = []
        self.before_create: Callable[[str], None] = lambda _key: None

    def get_variable(self, name: str) -> dict[str, Any] | None:
        return self.kept.get(name)

    def set_variable(self, name: str, value: dict[str, Any]) -> None:
        self.kept[name] = value

    def delete_variable(self, name: str) -> bool:
        return self.kept.pop(name, None) is not None

    def variables(self, prefix: str) -> dict[str, dict[str, Any]]:
        return {n.removeprefix(prefix): v for n, v in self.kept.items() if n.startswith(prefix)}

    def place(self, k: int, target: str, ago_s: float, machine: tuple[str, ...] = (), fleet: str = "my-fleet") -> None:
        at = NOW - timedelta(seconds=ago_s)
        parameters = {"k": k, "target": target, "at": at.isoformat(), "act_run": f"a{k}", "machine": list(machine)}
        run = SimpleNamespace(id=f"{fleet}/{k}", parameters=parameters, planned=at, tags={guards.BUDGET_TAG, f"fleet:{fleet}"})
        self.runs[f"{fleet}/{k}"] = run

    def find_runs(self, tags: Iterable[str], since: datetime | None = None, limit: int | None = None) -> list[Any]:
        found = [r for r in self.runs.values() if set(tags) <= r.tags and (since is None or r.planned >= since)]
        return sorted(found, key=lambda r: -r.parameters["k"])[:limit]

    def create_record(self, flow: str, parameters: dict[str, Any], **more: Any) -> Any:
        key = str(more["key"])
        self.created.append({"flow": flow, "parameters": parameters, **more})
        self.before_create(key)
        if key not in self.runs:
            self.runs[key] = SimpleNamespace(id=key, parameters=parameters, planned=NOW, tags=set(more["tags"]))
        return self.runs[key]

    def read_run(self, run_id: str) -> Any:
        return self.runs[run_id]


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Store:
    made = Store()
    monkeypatch.setattr(guards, "store", made)
    monkeypatch.setattr(records, "create_record", made.create_record)
    monkeypatch.setattr(guards, "server_now", lambda: NOW)
    monkeypatch.setenv("GPU_RUNBOOKS_HOME", str(tmp_path))
    return made


def says_no(what: Callable[[], object]) -> str:
    with pytest.raises(ActionRefused) as e:
        what()
    return str(e.value)


def unreachable(*_: object) -> None:
    raise ConnectionError("refused")


def test_freeze(store: Store, tmp_path: Path) -> None:
    check_freeze()
    store.kept[FREEZE] = {"at": "noon", "why": "change window"}
    assert says_no(check_freeze) == "frozen since noon: change window"
    store.kept[FREEZE] = {"x": 1}
    assert says_no(check_freeze) == "frozen since ?: "
    del store.kept[FREEZE]
    (tmp_path / "FREEZE").write_text("2026-03-02T03:14:05+01:00 by  ana: a test\n")
    assert says_no(check_freeze) == "this machine is frozen: 2026-03-02 02:14:05 UTC by  ana: a test"
    assert FREEZE == "gpu_runbooks_freeze"


def test_without_an_answer_nothing_is_changed(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "get_variable", unreachable)
    assert says_no(check_freeze) == "the freeze switch cannot be read, so nothing is changed (ConnectionError: refused)"
    assert says_no(lambda: check_breaker("f")) == "the breaker cannot be read, so nothing is changed (ConnectionError: refused)"


def test_breaker(store: Store) -> None:
    check_breaker("my-fleet")
    assert breaker_name("my-fleet") == "gpu_runbooks_breaker_my_fleet"
    trip("my-fleet", "too many", NOW)
    assert store.kept == {"gpu_runbooks_breaker_my_fleet": {"at": "2026-01-02T03:04:05+00:00", "why": "too many"}}
    assert says_no(lambda: check_breaker("my-fleet")) == (
        "the breaker of fleet my-fleet tripped at 2026-01-02 03:04:05 UTC: too many; "
        "a person resets it with `gpu-runbooks reset-breaker`"
    )
    store.kept["gpu_runbooks_breaker_my_fleet"] = {"x": 1}
    assert says_no(lambda: check_breaker("my-fleet")).startswith("the breaker of fleet my-fleet tripped at ?: ; a person")
    check_breaker("another")
    assert reset_breaker("my-fleet", "ana") is True
    assert store.kept == {FRESH: {"at": NOW.isoformat(), "who": "ana"}}
    assert reset_breaker("my-fleet") is False
    trip("my-fleet", "again", NOW)
    assert reset_breaker("my-fleet") is True
    assert store.kept[FRESH]["who"] == ""


def take(target: str, act_run: str = "mine", machine: tuple[str, ...] = ()) -> str:
    return take_budget_token(FLEET, POLICY, target, act_run, machine)


def test_a_place_is_taken_and_written_down(store: Store) -> None:
    assert take("n0", machine=("m:1",)) == "budget: place 1 of 2 in 600 s"
    [made] = store.created
    assert made["parameters"] == {"k": 1, "target": "n0", "at": NOW.isoformat(), "act_run": "mine", "machine": ["m:1"]}
    assert (made["flow"], made["key"], made["name"]) == ("budget-slot", "my-fleet/1", "budget-my-fleet-1")
    assert (made["tags"], made["labels"]) == (["gpu-budget", "fleet:my-fleet"], {})
    assert (made["state"].type.value, made["state"].message) == ("COMPLETED", "a place in the budget")
    assert take("n1") == "budget: place 2 of 2 in 600 s"
    assert store.created[-1]["key"] == "my-fleet/2"


def test_a_target_that_has_a_place_needs_no_second_one(store: Store) -> None:
    store.place(2, "n0", 10)
    store.place(1, "n1", 10, machine=("m:1", "m:2"))
    assert take("n0") == "budget: n0 is already counted (2 of 2 nodes in the window)"
    del store.runs["my-fleet/2"].parameters["machine"]  # a place of an older version
    said = "budget: n4, the same machine as n1, is already counted (2 of 2 nodes in the window)"
    assert take("n4", machine=("m:2", "m:9")) == said
    assert store.created == []


def test_over_the_budget_the_breaker_trips(store: Store) -> None:
    store.place(1, "n0", 10, machine=("m:8",))
    store.place(2, "n1", 599)
    why = "2 of 2 nodes changed in 600 s; n2 is one more"
    assert says_no(lambda: take("n2", machine=("m:7",))) == f"budget used up: {why}; the breaker is tripped"
    assert store.kept[breaker_name("my-fleet")] == {"at": NOW.isoformat(timespec="seconds"), "why": why}
    marks = sorted([*(mark("at", f"h{i}:22") for i in range(5)), "m:7", "m:8"])
    assert store.kept["gpu_runbooks_tripped_0_my_fleet"] == {"fleet": "my-fleet", "machines": marks}
    assert "tripped at" in says_no(lambda: take("n0"))
    assert store.created == []


@pytest.mark.parametrize(
    ("ago_s", "said"),
    [(599, "place 2 of 2"), (600, "place 1 of 2"), (601, "place 1 of 2")],
)
def test_the_window_slides(store: Store, ago_s: float, said: str) -> None:
    store.place(7, "n0", ago_s)
    assert said in take("n1")
    assert store.created[-1]["key"] == "my-fleet/8", "numbers go on, also beyond the window"


def test_a_reset_begins_the_budget_afresh(store: Store) -> None:
    store.place(1, "n0", 100)
    store.place(2, "n1", 50)
    store.kept[FRESH] = {"at": (NOW - timedelta(seconds=50)).isoformat()}
    assert "place 1 of 2" in take("n2")
    store.kept[FRESH] = {"at": (NOW - timedelta(seconds=5000)).isoformat()}  # before the window: no longer one
    store.runs.pop("my-fleet/3")
    store.place(3, "n2", 599)
    assert "used up" in says_no(lambda: take("n3"))


def test_other_fleets_do_not_count(store: Store) -> None:
    store.place(5, "n0", 1, fleet="other")
    store.place(6, "n1", 1, fleet="other")
    assert take("n2") == "budget: place 1 of 2 in 600 s"
    assert store.created[-1]["key"] == "my-fleet/1"


def test_a_machine_that_another_fleet_changed_counts_here_as_well(store: Store) -> None:
    """By the address in this fleet's file, or by what was read of the machine that is to be changed now."""
    store.place(5, "x", 1, fleet="other", machine=("card-1", mark("at", "h3:22")))
    store.place(6, "y", 1, fleet="other", machine=("card-2", mark("at", "elsewhere:22")))
    assert take("n3", machine=("card-1", mark("at", "h3:22"))) == (
        "budget: n3, the same machine as x, is already counted (1 of 2 nodes in the window)"
    )
    assert take("n4", machine=("card-2",)) == "budget: n4, the same machine as y, is already counted (2 of 2 nodes in the window)"
    assert store.created == []
    assert take("n0", machine=("card-3",)) == "budget: place 2 of 2 in 600 s"
    assert "2 of 2 nodes changed" in says_no(lambda: take("n1", machine=("card-4",)))


def test_one_machine_under_two_names_is_one(store: Store) -> None:
    store.place(1, "n0", 10, machine=("card-1",))
    store.place(2, "n1", 9, machine=("card-1", "card-9"))
    store.place(4, "n0", 8, machine=("card-9",), fleet="other")  # the other fleet's n0, known by its card only
    assert take("n2") == "budget: place 2 of 2 in 600 s"
    assert store.created[-1]["key"] == "my-fleet/3"


def test_two_fleets_that_take_the_last_place_at_one_moment_both_stop(store: Store) -> None:
    """Their numbers do not exclude each other, so each looks again after it has written: the later one sees the other."""

    def other(key: str) -> None:
        store.place(9, "x", 0, fleet="other", machine=(mark("at", "h3:22"),))

    store.place(1, "n0", 10)
    store.before_create = other
    why = "3 of 2 nodes were to be changed at the same moment"
    assert says_no(lambda: take("n1")) == f"budget used up: {why}; the breaker is tripped"
    assert store.kept[breaker_name("my-fleet")]["why"] == why


def test_a_breaker_holds_for_the_machines_of_its_fleet_in_every_fleet(store: Store) -> None:
    trip("my-fleet", "too many", NOW, ("m:2", "m:1"))
    assert store.kept["gpu_runbooks_tripped_0_my_fleet"] == {"fleet": "my-fleet", "machines": ["m:1", "m:2"]}
    check_breaker("another")
    check_breaker("another", ("m:3",))
    assert says_no(lambda: check_breaker("another", ("m:3", "m:2"))) == (
        "the breaker of fleet my-fleet tripped at 2026-01-02 03:04:05 UTC: too many; it also applies to this machine, which is in that "
        "fleet too; a person resets it with `gpu-runbooks reset-breaker` there"
    )
    assert says_no(lambda: take("n0", machine=("m:2",))).endswith("gpu-runbooks reset-breaker`"), "its own breaker first"
    other = FLEET.model_copy(update={"name": "another"})
    assert "in that fleet too" in says_no(lambda: take_budget_token(other, POLICY, "n0", "mine", ("m:2",)))
    trip("a-third", "own", NOW)
    assert says_no(lambda: check_breaker("a-third", ("m:2",))).startswith("the breaker of fleet a-third tripped")
    store.kept["gpu_runbooks_tripped_0_my"] = {"fleet": "my", "machines": ["m:3"]}  # of a breaker that is reset
    check_breaker("another", ("m:3",))
    assert reset_breaker("my-fleet")
    assert set(store.kept) == {breaker_name("a-third"), "gpu_runbooks_tripped_0_my", FRESH}
    check_breaker("another", ("m:2",))


def test_the_marks_of_many_machines_go_into_several_variables(store: Store) -> None:
    trip("big", "too many", NOW, (f"at-{i:016}" for i in range(151)))
    lists = store.variables(guards.TRIPPED)
    assert {name: len(v["machines"]) for name, v in lists.items()} == {"0_big": 150, "150_big": 1}
    assert max(len(str(v)) for v in lists.values()) < 4_900
    assert "fleet big tripped" in says_no(lambda: check_breaker("another", (f"at-{150:016}",)))
    assert reset_breaker("big")
    assert store.variables(guards.TRIPPED) == {}


def test_who_loses_a_place_looks_again(store: Store) -> None:
    """Another asker got the number first: the next number is asked for, and the other's target counts."""

    def first(key: str) -> None:
        if key == "my-fleet/1":
            store.place(1, "n9", 0)

    store.before_create = first
    assert take("n0") == "budget: place 2 of 2 in 600 s"
    assert [c["key"] for c in store.created] == ["my-fleet/1", "my-fleet/2"]


def test_it_gives_up_after_a_thousand_tries(store: Store) -> None:
    def always(key: str) -> None:
        store.place(int(key.split("/")[1]), "n9", 0)

    store.before_create = always
    assert says_no(lambda: take("n0")) == "the budget could not be read in 1000 tries"
    assert len(store.created) == 1000
