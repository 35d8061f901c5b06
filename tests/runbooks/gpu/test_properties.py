"""What must hold for every node that can be thought of: no plan on a guess, no benign process in a kill set."""

from datetime import timedelta
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runbooks.core.reading import Unknown, UnknownReason
from runbooks.core.verdict import Certainty, Diagnosis, State
from runbooks.gpu.company import WAITS
from runbooks.gpu.evidence import Evidence
from tests.runbooks.gpu.build import AT, evidence, judge

MANY = settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
PIDS = (420, 460, 461, 470)
COUNTS = st.sampled_from([None, 0, 0, 0, 40, 90_000_000])


def process(pid: int) -> st.SearchStrategy[dict[str, Any]]:
    """A process: often a quiet member of one job, so that plans come up; else anything."""
    quiet = st.fixed_dictionaries(
        {
            "pid": st.just(pid),
            "state": st.sampled_from("SSTZ"),
            "ppid": st.sampled_from([1, *(p for p in PIDS if p < pid)]),
            "job": st.just("train"),
            "cpu_window_s": st.sampled_from([0.0, 0.0, 0.0, 5.0]),
        }
    )
    return st.one_of(quiet, quiet, quiet, anything(pid))


def anything(pid: int) -> st.SearchStrategy[dict[str, Any]]:
    """A process in any state, with counters that moved, did not, or could not be read."""
    return st.fixed_dictionaries(
        {
            "pid": st.just(pid),
            "state": st.sampled_from("SSSTTRDZt"),
            "ppid": st.sampled_from([1, *(p for p in PIDS if p < pid)]),
            "sid": st.sampled_from([418, 418, pid]),
            "age_s": st.sampled_from([5.0, 7200.0, 7200.0]),
            "job": st.sampled_from(["", "train", "train", "serve"]),
            "cpu_window_s": st.sampled_from([None, 0.0, 0.0, 0.0, 5.0]),
            "io_window_bytes": COUNTS,
            "sockets_moved_bytes": COUNTS,
            "tracer": st.sampled_from([0, 0, 0, 99]),
            "writing": st.sampled_from([(), (), ("/ckpt/step-7.pt",), ("/var/log/beat.log",)]),
            "container": st.sampled_from(["", "", "c0ffee"]),
            "cgroup": st.sampled_from(["/", "/user.slice/session-4.scope", "/system.slice/train.service"]),
            "nvidia_fds": st.sampled_from([[], ["/dev/nvidia0"]]),
            "wchan": st.sampled_from(["", "", "nv_wait", "nfs_wait", "__refrigerator"]),
            "listening": st.sampled_from([(), (), (8000,)]),
            "threads": st.sampled_from([1, 4]),
            "run": st.sampled_from([{}, {}, None]),
        }
    )


GPU = st.fixed_dictionaries(
    {
        "holders": st.one_of(
            st.dictionaries(st.sampled_from([460, 461, 470]), st.just(8.5), min_size=1, max_size=2),
            st.dictionaries(st.sampled_from([*PIDS, 9999]), st.sampled_from([8.5, 8.5, None]), max_size=3),
            st.just("unresolved"),
        ),
        "use": st.sampled_from([[0] * 6, [0] * 6, [100] * 6, [0, 3, 1, 0], [60, 70, 50], []]),
        "traffic": st.sampled_from([0, 0, 25]),
        "power": st.sampled_from([[140.3], [300.0, 690.0], []]),
        "mig": st.sampled_from([False] * 7 + [True]),
    }
)
LINES = st.sampled_from(
    [
        "NVRM: Xid (PCI:0000:06:00): 79, GPU has fallen off the bus.",
        "NVRM: Xid (PCI:0000:06:00): 119, pid=460, name=python3, Timeout",
        "NVRM: Xid (PCI:0000:07:00): 31, pid=460, name=python3, MMU Fault",
        "NVRM: Xid (PCI:0000:06:00): 45, pid=460, name=python3, Ch 1",
    ]
)
EARLIER = st.fixed_dictionaries(
    {
        "ago_s": st.sampled_from([100, 900, 900]),
        "processes": st.fixed_dictionaries(
            {p: st.sampled_from([{}, {}, {"state": "D"}, {"cpu_s": 1.0}]) for p in PIDS}
        ),
        "progress": st.just([{"before": 70, "after": 70}]),
        "gpu_sm_percent": st.just({"GPU-5a3c1e90-0000-4000-8000-000000000001": 100.0}),
        "leader_jobs": st.sampled_from([None, 0, 2]),
    }
)
SITUATION = st.fixed_dictionaries(
    {
        "gpus": st.lists(GPU, max_size=2),
        "processes": st.tuples(*(process(p) for p in PIDS)).map(list),
        "jobs": st.tuples(
            st.fixed_dictionaries(
                {
                    "restart": st.sampled_from([[], ["/srv/start"]]),
                    "progress_configured": st.booleans(),
                    "single_node": st.booleans(),
                }
            )
        ).map(lambda t: [*t, {"name": "serve", "kind": "inference"}]),
        "progress": st.sampled_from(
            [[], [{"before": 70, "after": 70, "changed_s_ago": 4000}], [{"before": 69, "after": 70}]]
        ),
        "kernel": st.one_of(*[st.just([])] * 4, st.lists(LINES.map(lambda x: {"at_s": 5000, "line": x}), max_size=2)),
        "device_holders": st.sampled_from([[], list(PIDS)]),
        "facts": st.fixed_dictionaries({"in_container": st.sampled_from([False, False, True]), "root": st.booleans()}),
        "hands_off": st.sampled_from([False] * 9 + [True]),
    },
    optional={
        "earlier": EARLIER,
        "leader": st.sampled_from(
            [
                {"peers": {"node-a": [2, 0.0, 5.0]}},
                {"peers": {"node-a": [2, 0.0, 5.0], "b": [1, 0.0, 500.0], "c": [1, 0.0, 500.0]}},
                {"is_leader": False, "peers": {"node-a": [2, 0.0, 5.0]}},
            ]
        ),
        "errors": st.sampled_from([[], [], [], [], [{"index": 1, "error": "Unknown Error"}]]),
    },
)
NODES = SITUATION.map(evidence)


def acted_on(d: Diagnosis) -> set[int]:
    """PIDs in any kill set of any plan."""
    steps = [s for p in d.plans for s in p.steps]
    return {p["pid"] for s in steps if s.kind == "terminate-processes" for p in s.args["processes"]}


def pids_in(subject: str) -> set[int]:
    """The pids that a subject names."""
    return {p for p in PIDS if subject.startswith(f"pid {p} ") or subject == f"pid {p}"}


@MANY
@given(NODES, st.sampled_from(["facts", "gpus", "processes"]), st.sampled_from(list(UnknownReason)))
def test_unknown_never_yields_a_plan(e: Evidence, name: str, why: UnknownReason) -> None:
    """Nor health."""
    d = judge(e.model_copy(update={name: Unknown(reason=why, detail="test")}))
    assert d.plans == ()
    assert d.state in (State.UNHEALTHY, State.CANNOT_TELL)


@MANY
@given(NODES)
def test_kill_sets_are_innocent_of_innocents(e: Evidence) -> None:
    """No benign, traced, dead, stuck, foreign or working process, and no ancestor of a benign one, is ended."""
    d = judge(e)
    ended = acted_on(d)
    benign = {p for c in d.causes if c.benign for p in pids_in(c.subject)}
    assert not ended & benign
    known = {p.pid: p for p in e.processes.value} if e.processes.kind == "known" else {}
    for pid in benign:
        above, at = set(), known[pid]
        while at.ppid in known and at.ppid not in above:
            above.add(at.ppid)
            at = known[at.ppid]
        assert not ended & above
    for pid in ended:
        p = known[pid]
        assert p.state in "STR"
        assert not p.tracer
        assert not (p.writing and "ckpt" in p.writing[0])
        assert not p.cgroup.endswith("train.service")


@MANY
@given(NODES)
def test_plans_stand_on_confirmed_causes_only(e: Evidence) -> None:
    """Every cause that a plan names is confirmed; a node that is hands_off gets none; identities are complete."""
    d = judge(e)
    assert not (e.hands_off and d.plans)
    sure = {c.slug for c in d.causes if c.certainty is Certainty.CONFIRMED and not c.benign}
    for plan in d.plans:
        assert plan.for_causes
        assert set(plan.for_causes) <= sure
        for step in plan.steps:
            assert step.commands
            assert step.effect
            assert "boot_id" not in step.args or step.args["boot_id"] == "boot-1"
            if step.kind == "terminate-processes":
                one = [p["pid"] for p in step.args["processes"]]
                assert one == sorted(set(one))
                assert one


@MANY
@given(NODES)
def test_no_plan_on_idleness_without_a_reading_that_covers_the_limit(e: Evidence) -> None:
    """One window can't confirm idleness or a spin."""
    d = judge(e)
    covered = e.earlier.kind == "known" and e.earlier.value.taken_at <= AT - timedelta(seconds=600)
    slow = [c for c in d.causes if c.slug in WAITS]
    assert covered or all(c.certainty is not Certainty.CONFIRMED for c in slow)


@MANY
@given(NODES)
def test_who_may_have_mates_that_nobody_saw_is_not_proven_to_wait_for_nothing(e: Evidence) -> None:
    """An environment that was not read may name a run: what looks idle is not confirmed, and nothing of it is ended."""
    d = judge(e)
    known = {p.pid: p for p in e.processes.value} if e.processes.kind == "known" else {}
    sure = {p for c in d.causes if c.slug in WAITS and c.certainty is Certainty.CONFIRMED for p in pids_in(c.subject)}
    assert all(known[p].run is not None for p in sure)


@MANY
@given(NODES)
def test_deterministic_and_never_silent(e: Evidence) -> None:
    """Same evidence, same diagnosis, also after a round trip through JSON; warnings and reasons are always there."""
    d = judge(e)
    again = judge(Evidence.model_validate_json(e.model_dump_json()))
    assert d == again
    assert d.must_not
    assert d.headline
    assert all(c.evidence for c in d.causes)
    assert d.state is not State.HEALTHY or not d.wrong
    assert d.state is not State.HEALTHY or not d.plans
