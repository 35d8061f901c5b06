"""Starting a container that has only ended is the first plan where nothing speaks against it; else the report says what does."""

from collections.abc import Sequence
from typing import Any

import pytest

from runbooks.container.diagnose import Limits, diagnose
from runbooks.container.evidence import Evidence
from runbooks.core.knowledge import load_runbook
from runbooks.core.plan import Plan
from runbooks.core.verdict import Diagnosis
from tests.runbooks.container.test_situations import BASE, FILES, judged
from tests.support.situations import merge

ID = BASE["container"]["value"]["id"]
KILL = {"at": "2026-03-02T11:59:30Z", "action": "kill", "id": ID, "name": "ray_docker", "signal": "9"}
DIE = {"at": "2026-03-02T11:59:30Z", "action": "die", "id": ID, "name": "ray_docker", "exit_code": 137}
KILLED = {"events": {"kind": "known", "value": [KILL, DIE]}}
OWN_LIMIT = {"at": KILL["at"], "pid": 900, "process": "python", "memcg": True, "cgroup": f"/docker/{ID}", "text": "Killed process 900"}
LOOP = {"kind": "retry-loop", "name": "/tmp/retry.sh", "pid": 77, "start_ticks": 5, "command": "bash /tmp/retry.sh"}
UNIT = {"kind": "systemd", "name": "w.service", "command": "ExecStart=docker start -a ray_docker", "life": "3f2a5c0e" * 4}
MOUNT = {"path": "/mnt/b", "type": "fuse.gcsfuse", "where": "host", "state": "dead", "error": "not connected", "wanted": True}
CLOCK_BACK = {"container": {"value": {"started_at": "2026-03-02T11:58:00Z", "finished_at": "2026-03-02T11:57:00Z", "exit_code": 255}}}
BOOTED = {"host": {"value": {"booted_at": "2026-03-02T11:59:00Z", "daemon_started_at": "2026-03-02T11:59:20Z"}}}
OUTSIDE = {"host-rebooted", "daemon-restarted", "daemon-upgraded", "oom-host", "killed-from-outside", "killed-through-engine"}


def judge(*changes: dict[str, Any]) -> Diagnosis:
    """The base, a container that was killed after more than an hour, with these changes."""
    said: Any = BASE
    for change in changes:
        said = merge(said, change)
    return diagnose(Evidence.model_validate(said), Limits(**load_runbook("container-death").limit_values()))


def kinds(plan: Plan) -> list[str]:
    return [s.kind for s in plan.steps]


def value(name: str, *items: dict[str, Any]) -> dict[str, Any]:
    return {name: {"kind": "known", "value": list(items)}}


def test_the_causes_that_a_start_answers_are_those_outside_that_are_over() -> None:
    """As runbook.yaml says, and each is seen to offer it."""
    causes = load_runbook("container-death").causes
    assert {slug for slug, known in causes.items() if "start-container" in known.mildest} == OUTSIDE
    offers = {slug for path in FILES for p in judged(path)[1].plans if kinds(p)[-1] == "start-container" for slug in p.for_causes}
    assert offers >= OUTSIDE


def test_what_forbids_a_recreation_forbids_a_start_too() -> None:
    for slug, known in load_runbook("container-death").causes.items():
        assert "recreate-container" not in known.forbids or "start-container" in known.forbids, slug


def test_it_stands_before_the_recreation_and_loses_nothing() -> None:
    first, second = judge(KILLED).plans
    assert (first.name, second.name) == ("start it again", "recreate")
    assert first.steps[0].loses.startswith("nothing")
    assert first.steps[0].args["id"] == ID
    assert first.steps[0].args["started_at"] == "2026-03-02T10:50:00+00:00"
    assert first.also_gone == second.also_gone != ()
    assert "harsher than “start it again”" in second.why


def test_what_a_recreation_runs_inside_runs_after_a_start_as_well() -> None:
    """Set-up, mounts inside, application, in this order; what is mounted on the host is not mounted inside."""
    mounts = [["/in", "container", ["mount-it", "/in"]], ["/out", "host", ["mount-it", "/out"]]]
    plan = judge(KILLED, {"wanted": {"setup": [["sh", "-c", "echo a b"]], "mounts": mounts}}).plans[0]
    short = ID[:12]
    assert plan.steps[0].commands == (
        f"docker start {short}", f"docker exec {short} sh -c 'echo a b'", f"docker exec {short} mount-it /in",
        f"docker exec -d {short} ray start --block",
    )  # fmt: skip
    assert plan.steps[0].args["mounts"] == [["/in", ["mount-it", "/in"]]]
    assert plan.steps[0].loses.endswith("the set-up commands find it there")
    bare = judge(KILLED, {"wanted": {"start": [], "match": ""}}).plans[0].steps[0]
    assert bare.commands == (f"docker start {short}",)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ([{"container": {"value": {"command": ["sleep", "9000"]}}}], "a sleep that ends after 2.5 h"),
        ([{"container": {"value": {"started_at": "2026-03-02T11:55:00Z"}}}], "it ran for 4 min only"),
        ([{"container": {"value": {"status": "dead"}}}], "the engine says that it is dead"),
        ([CLOCK_BACK, BOOTED], "how long it ran before is not known"),
        ([value("ooms", OWN_LIMIT), {"host": {"value": {"daemon_started_at": "2026-03-02T11:59:36Z"}}}], None),
        ([value("supervisors", LOOP)], "forbids start-container"),
        ([value("supervisors", UNIT)], "forbids start-container"),
        ([value("fuse", MOUNT), {"wanted": {"mounts": [["/mnt/b", "host", ["gcsfuse", "b", "/mnt/b"]]]}}], "forbids start-container"),
        ([{"container": {"value": {"exit_code": 1}}, "events": {"kind": "known", "value": []}}], None),
    ],
)  # fmt: skip
def test_ruled_out_and_said_why(changes: Sequence[dict[str, Any]], words: str | None) -> None:
    """None: no cause of the report is one that a start answers."""
    found = judge(KILLED, *changes)
    assert found.plans, found.headline
    assert [p.name for p in found.plans] == ["recreate"], found
    said = [x for x in (*found.do_now, *(p.why for p in found.plans)) if "“start it again” is not offered" in x]
    assert any(words in x for x in said) if words else not said, (said, found.do_now)


@pytest.mark.parametrize(
    "wrong",
    [
        {"host": {"value": {"missing_sources": ["/data"]}}},
        {"host": {"value": {"missing_devices": ["/dev/nvidia0"]}}},
        {"daemon": {"value": {"images": []}}},
    ],
)
def test_neither_where_it_cannot_run(wrong: dict[str, Any]) -> None:
    """A folder that it mounts is not there, nor a device that it is given; its image is gone."""
    assert judge(KILLED, wrong).plans == ()


def test_a_disk_is_made_free_before_it_is_started() -> None:
    full = {"path": "/", "size_bytes": 500_000_000_000, "free_bytes": 1_000_000, "inodes": 10, "inodes_free": 9}
    assert [kinds(p) for p in judge(KILLED, {"host": {"value": {"disks": [full]}}}).plans] == [
        ["free-engine-space", "start-container"], ["free-engine-space", "recreate-container"],
    ]  # fmt: skip
