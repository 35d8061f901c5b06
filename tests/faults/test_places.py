"""Two names of one machine: one lock, one history, one place in the budget, also from two fleet files. One name of two
machines: two of each, once that is known; in doubt they are taken for one."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import yaml

from flows import config, store
from flows.clock import server_now
from flows.config import load_fleet
from flows.engine.guards import check_breaker, reset_breaker, take_budget_token, trip
from flows.engine.lock import Lock, history_of, lock_all, release
from flows.engine.lock_key import lock_key_of, namesakes
from runbooks.core.fleet import LOCAL_FLEET, Fleet, Node
from runbooks.core.fleet_names import unnamed
from runbooks.core.plan import Plan, Step
from runbooks.core.policy import Budget, Policy
from runbooks.core.reading import UnknownReason
from tasks import this_machine
from tasks.context import ActionRefused, Context
from tasks.remote.machine_identity import read_machine
from tasks.transport.base import CommandResult, TransportError
from tasks.transport.local import LocalHost
from tasks.transport.open import HostPool
from tests.faults.fault import HOLD, arm, let_go, struck
from tests.faults.real import outcome
from tests.faults.test_machines import wait_for
from tests.support.engine_rig import Rig
from tests.support.sshd import Sshd
from tests.support.toy import acts_done, write_world

pytestmark = pytest.mark.scored(fault="two names of one machine", point="the lock")

LOST = "lost"


class On:
    """A host whose machine is named by the test; nothing can be read of the machine `LOST`."""

    def __init__(self, machine: str) -> None:
        self.machine = machine
        self.notes = ()

    @property
    def name(self) -> str:
        if self.machine == LOST:
            raise TransportError(UnknownReason.TIMED_OUT, "no answer")
        return self.machine

    def run(self, argv: Sequence[str], **_: Any) -> CommandResult:
        raise AssertionError(argv)

    def close(self) -> None:
        """Nothing."""


def on(fleet: str, *nodes: str, machine: str, host: str = "") -> Context:
    """A run in that fleet, whose nodes are all names of `machine`."""
    made = tuple(Node(name=n, host=host or f"{n}.{fleet}.example") for n in nodes)
    return Context(Fleet(name=fleet, nodes=made), nodes[0], lambda _: On(machine))


def take(context: Context, *owners: str) -> tuple[Lock, ...]:
    steps = tuple(Step(kind="toy-fix", owner=o, args={}, commands=(), effect="") for o in owners or (context.target,))
    about = {"runbook_run": str(uuid4()), "fleet": context.fleet.name}
    return lock_all(Plan(name="p", steps=steps, for_causes=("c",)), about, context)


def began(held: Lock) -> None:
    """The record of its first step, begun and ended."""
    store.label(held.act_run, {"step.0": "toy-fix: done"})


def act_on(context: Context) -> None:
    """An act that began and ended."""
    for held in take(context):
        began(held)
        release((held,), "over")


def test_fleets_that_nobody_named_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the path as it is given, whatever a link there leads to; a fleet without a file by its machine."""
    nodes = "nodes: [{name: a, local: true}]\n"
    one, two, named = (tmp_path / f"{n}.yaml" for n in ("one", "two", "named"))
    one.write_text(nodes)
    two.symlink_to(one)
    named.write_text(f"name: default\n{nodes}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GPU_RUNBOOKS_FLEET", raising=False)
    names = [load_fleet(str(p)).name for p in (one, two, named)] + [load_fleet(None).name]
    assert len(set(names)) == 4
    assert load_fleet("one.yaml").name == names[0] != "default"
    assert names[2] == "default"
    assert load_fleet(None).nodes == LOCAL_FLEET.nodes
    monkeypatch.setattr(this_machine, "host_name", lambda: "other")
    monkeypatch.setattr(config, "host_name", lambda: "other")
    assert load_fleet(None).name != names[3]


def test_a_breaker_of_before_still_holds_until_it_is_reset(rig: Rig) -> None:
    """It tripped when every fleet without a name was called the same."""
    mine, other = unnamed(uuid4().hex[:8]), unnamed(uuid4().hex[:8])
    trip("default", "a test", server_now())
    with pytest.raises(ActionRefused, match="tripped"):
        check_breaker(mine)
    assert reset_breaker(mine)
    trip(mine, "a test", server_now())
    check_breaker(other)
    with pytest.raises(ActionRefused, match="tripped"):
        check_breaker(mine)
    assert reset_breaker(mine)
    assert not reset_breaker(mine)


def owners_of_history(context: Context) -> list[str]:
    return [a.owner for a in history_of((lock_key_of(context.target, context),), context.fleet.name)]


@pytest.fixture
def names(rig: Rig) -> tuple[str, str, str]:
    """Two node names and a machine that no other test uses."""
    some = uuid4().hex[:8]
    return f"a{some}", f"b{some}", f"m{some}"


def test_two_names_of_one_machine_are_one_owner(names: tuple[str, str, str]) -> None:
    a, b, m = names
    first, second = on("fleet-1", a, machine=m), on("fleet-2", b, machine=m)
    held = take(first)
    with pytest.raises(ActionRefused, match=f"{b} is locked by action run act-{a}-1"):
        take(second)
    release(held, "a test")
    release(take(second), "a test")
    act_on(first)
    assert owners_of_history(second) == [b]


def test_two_names_of_one_machine_in_one_plan(names: tuple[str, str, str]) -> None:
    a, b, m = names
    both = on("fleet-1", a, b, machine=m)
    held = take(both, a, b)
    assert [c.owner for c in held] == [a, b]
    assert len({c.place.lock for c in held}) == 1, "one lock file on the machine"
    with pytest.raises(ActionRefused):
        take(both, b)


def test_one_name_of_two_machines_in_two_fleets(names: tuple[str, str, str]) -> None:
    a, _, m = names
    first, second = on("fleet-1", a, machine=m), on("fleet-2", a, machine=f"{m}-other")
    act_on(first)
    held = (*take(first), *take(second))
    assert [c.owner for c in held] == [a, a]
    assert owners_of_history(second) == []
    assert owners_of_history(first) == [a]


def test_the_machine_behind_a_name_is_replaced(names: tuple[str, str, str]) -> None:
    """Or it was only booted: within a fleet a name keeps its history."""
    a, _, m = names
    act_on(on("fleet-1", a, machine=m))
    held = take(on("fleet-1", a, machine=m))
    later = on("fleet-1", a, machine=f"{m}-later")
    assert owners_of_history(later) == [a]
    with pytest.raises(ActionRefused):
        take(later)
    release(held, "a test")


def test_records_of_before_count_by_name(names: tuple[str, str, str]) -> None:
    """They do not say on which machine they were, and may name another fleet."""
    a, _, m = names
    steps = (Step(kind="toy-fix", owner=a, args={}, commands=(), effect=""),)
    held = lock_all(Plan(name="p", steps=steps, for_causes=("c",)), {"runbook_run": "old", "fleet": "default"})
    store.label(held[0].act_run, {"step.0": "toy-fix: begun"})
    now = on("default-12345678", a, machine=m)
    with pytest.raises(ActionRefused):
        take(now)
    release(held, "over")
    assert owners_of_history(now) == [a]


def test_a_machine_that_cannot_be_read_is_locked_by_name_and_address(names: tuple[str, str, str]) -> None:
    a, b, m = names
    unread = on("fleet-1", a, machine=LOST, host="10.0.0.1")
    (held,) = take(unread)
    assert held.place.doubt == f"{a}: its machine identity could not be read (timed out), so it is locked by name and address"
    for known in (on("fleet-2", b, machine=m, host="10.0.0.1"), on("fleet-2", a, machine=m)):
        with pytest.raises(ActionRefused):
            take(known)
    release((held,), "a test")
    held = take(on("fleet-2", b, machine=m, host="10.0.0.1"))[0]
    with pytest.raises(ActionRefused):
        take(unread)
    release((held,), "a test")


@pytest.mark.parametrize("tries", [10, pytest.param(200, marks=pytest.mark.soak)])
def test_two_names_claimed_at_the_same_moment(rig: Rig, tries: int) -> None:
    """At most one of them wins."""
    from time import time

    for i in range(tries):
        some = uuid4().hex[:8]
        outs = [rig.home / f"{some}-{k}" for k in range(2)]
        at = time() + 0.3
        pids = [
            rig.start({"do": "claim", "owner": f"{'ab'[k]}{some}", "machine": some, "token": f"{some}-{k}", "out": str(out)}
                      | {"wait_until": at + k * (i % 11) * 0.005})
            for k, out in enumerate(outs)
        ]  # fmt: skip
        for pid in pids:
            rig.wait(pid)
        found = sorted(out.read_text().split()[0] for out in outs)
        assert found in (["locked", "won"], ["locked", "locked"]), f"try {i}: {found}"


def test_a_second_name_takes_no_second_place_of_the_budget(names: tuple[str, str, str]) -> None:
    a, b, m = names
    policy = Policy(budget=Budget(nodes=1))
    fleet = Fleet(name=f"f-{m}", nodes=tuple(Node(name=n, host=n) for n in (a, b, "c")))
    assert "place 1 of 1" in take_budget_token(fleet, policy, a, "act-1", (m, f"{m}-card"))
    assert f"{b}, the same machine as {a}, is already counted" in take_budget_token(fleet, policy, b, "act-2", (f"{m}-card",))
    assert "is already counted" in take_budget_token(fleet, policy, a, "act-3")
    with pytest.raises(ActionRefused, match="budget used up"):
        take_budget_token(fleet, policy, "c", "act-4")


def test_one_machine_in_two_fleet_files_has_one_budget_and_one_breaker(names: tuple[str, str, str]) -> None:
    """Each file counts what the other one changed; a breaker that trips there holds for the machine here."""
    a, b, m = names
    policy, at = Policy(budget=Budget(nodes=1)), f"{m}.example"
    one = Fleet(name=f"one-{m}", nodes=(Node(name=a, host=at), Node(name="c", host=f"c-{at}")))
    two = Fleet(name=f"two-{m}", nodes=(Node(name=b, host=at), Node(name="d", host=f"d-{at}")))
    marks = lock_key_of(a, Context(one, a, lambda _: On(m))).marks
    assert marks == lock_key_of(b, Context(two, b, lambda _: On(m))).marks
    assert "place 1 of 1" in take_budget_token(one, policy, a, f"act-{m}-1", marks)
    assert f"{b}, the same machine as {a}, is already counted" in take_budget_token(two, policy, b, f"act-{m}-2", marks)
    with pytest.raises(ActionRefused, match="budget used up: 1 of 1 nodes changed"):
        take_budget_token(two, policy, "d", f"act-{m}-3", ("at-d",))
    with pytest.raises(ActionRefused, match=f"breaker of fleet two-{m} tripped .* in that fleet too"):
        check_breaker(one.name, marks)
    check_breaker(one.name, ("at-c",))
    assert reset_breaker(two.name)
    check_breaker(one.name, marks)


def test_a_tripped_breaker_of_another_fleet_file_refuses_a_run_on_its_machine(rig: Rig) -> None:
    w = rig.world()
    trip(f"other-{w.name}", "a test", server_now(), lock_key_of(w.name, on(w.name, w.name, machine=w.name)).same)
    assert outcome(w.run("auto")) == "refused"
    assert any("which is in that fleet too" in g for r in w.reports() for g in r["guards"])
    assert reset_breaker(f"other-{w.name}")
    assert outcome(w.run("auto")) == "fixed"


def test_opting_out_is_for_the_machine() -> None:
    nodes = (
        Node(name="a", host="10.0.0.1"),
        Node(name="b", host="10.0.0.1", user="other"),
        Node(name="c", host="10.0.0.1", jump={"host": "gate"}),
        Node(name="d", host="10.0.0.1", port=23),
    )
    assert namesakes(Fleet(nodes=nodes), {"b", "pod:1"}) == {"a", "b", "pod:1"}


# -- a real machine, by real ways in ---------------------------------------------------------------------------------------


def test_the_marks_are_the_same_by_every_way_in(tmp_path: Path) -> None:
    here, pool = read_machine(LocalHost("here")), HostPool()
    with Sshd(tmp_path, "one") as one, Sshd(tmp_path, "two") as two:
        for server in (one, two):
            assert read_machine(pool(server.node())) == here
        pool.close_all()
    assert here.boot
    assert here.same
    assert here.boot not in here.same, "containers share the boot, and are not one place"


class Clone(LocalHost):
    """This machine as a clone of it would be: the same machine id, host name and SSH host keys; a boot and cards of its own."""

    ENTER = """mount --bind "$1" /proc/sys/kernel/random/boot_id && mount -t tmpfs none /sys/class/net || exit 97
    [ ! -e /sys/class/dmi/id/product_uuid ] || mount --bind "$1" /sys/class/dmi/id/product_uuid || exit 97
    shift; exec "$@\""""

    def __init__(self, name: str, boot: Path) -> None:
        super().__init__(name)
        self.boot = boot
        boot.write_text(f"{uuid4()}\n", encoding="ascii")

    def run(
        self, argv: Sequence[str], *, stdin: str | None = None, timeout_s: float = 20.0, limit_bytes: int = 1 << 20
    ) -> CommandResult:
        inside = ["unshare", "--mount", "sh", "-c", self.ENTER, "sh", str(self.boot), *argv]
        return super().run(inside, stdin=stdin, timeout_s=timeout_s, limit_bytes=limit_bytes)


def test_clones_with_one_machine_id_are_two_machines(names: tuple[str, str, str], tmp_path: Path) -> None:
    """In one fleet: two locks held at a time, two histories, two places in the budget."""
    a, b, m = names
    hosts: dict[str, Clone] = {n: Clone(n, tmp_path / n) for n in (a, b)}
    ids = [h.run(["cat", "/etc/machine-id", "/etc/hostname"]).out for h in hosts.values()]
    assert ids[0] == ids[1] != ""
    fleet = Fleet(name=f"f-{m}", nodes=tuple(Node(name=n, host=f"{n}.example") for n in names))
    first, second = (Context(fleet, n, lambda node: hosts[node.name]) for n in (a, b))
    held = take(first)
    began(held[0])
    assert owners_of_history(second) == []
    other = take(second)
    assert not {c.place.lock for c in held} & {c.place.lock for c in other}
    release((*held, *other), "over")
    assert owners_of_history(first) == [a]
    policy = Policy(budget=Budget(nodes=2))
    assert "place 1 of 2" in take_budget_token(fleet, policy, a, "act-1", lock_key_of(a, first).marks)
    assert "place 2 of 2" in take_budget_token(fleet, policy, b, "act-2", lock_key_of(b, second).marks)


def test_two_names_of_a_real_machine_in_two_fleet_files(rig: Rig, tmp_path: Path) -> None:
    """Two servers, so two addresses. A run is held in its claim; a run under the other name may not act, nor right after
    it without a person: the cooldown is the machine's."""
    a, b = (f"n{uuid4().hex[:8]}" for _ in range(2))
    fault, out = tmp_path / "fault", tmp_path / "out"
    kinds = {"toy-fix": {"mode": "auto", "cooldown_s": 600, "attempts": 9}}
    storm = {"settle_s": 0.05, "alike": 1000}
    (tmp_path / "policy.yaml").write_text(yaml.safe_dump({"mode": "auto", "kinds": kinds, "storm": storm}))

    def start(name: str, server: Sshd, env: dict[str, str]) -> tuple[int, Path]:
        node = server.node(name=name).model_dump(mode="json", exclude_defaults=True)
        file, id_file = tmp_path / f"{name}.yaml", tmp_path / f"{uuid4().hex[:6]}.id"
        file.write_text(yaml.safe_dump({"name": f"f-{name}", "nodes": [node]}))
        write_world(rig.worlds, name, sick=True, identity=f"pid of {name}")
        given = {"target": name, "mode": "auto", "fleet": str(file), "policy": str(tmp_path / "policy.yaml"), "out": str(out)}
        job = {"do": "run", "slug": "zombie-gpu", "parameters": given, "id_file": str(id_file)}
        return rig.start(job | {"env": {"REAL_MACHINES": "1"} | env}), id_file

    with Sshd(tmp_path, "one") as one, Sshd(tmp_path, "two") as two:
        arm(fault, "claimed", HOLD)
        held, first = start(a, one, {"FAULT": str(fault)})
        wait_for(lambda: struck(fault))
        pid, second = start(b, two, {})
        rig.wait(pid)
        assert outcome(second.read_text()) == "refused"
        let_go(fault)
        rig.wait(held)
        assert outcome(first.read_text()) == "fixed"
        pid, second = start(b, two, {})
        rig.wait(pid)
        assert outcome(second.read_text()) == "waiting"
    assert len(acts_done(rig.worlds, a)) == 1
    assert acts_done(rig.worlds, b) == []
