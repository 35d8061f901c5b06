"""A kept container that is put to use, and an application whose container is started again, in the moment of the change."""

from typing import Any

import pytest

from runbooks.core.plan import Step
from tasks.container import act_engine
from tasks.container.probes import recreate, remove_kept, restart_application, stop_unit
from tasks.container.probes.engine_api import Api
from tests.support.docker_engine import Engine
from tests.support.racing import meanwhile
from tests.tasks.container.world import World


@pytest.mark.parametrize(("look", "what"), [(1, "start"), (2, "start"), (1, "rename"), (2, "rename")])
def test_a_kept_container_that_is_put_to_use_stays(engine: Engine, monkeypatch: pytest.MonkeyPatch, look: int, what: str) -> None:
    """Somebody starts it, or gives it its old name by the name that they know, after each look."""
    engine.create("box", "sleep", "1000")
    ident = engine.inspect("box")["Id"]
    kept = f"box.dead-{ident[:12]}"
    engine.run("stop", "-t", "0", "box")
    engine.run("rename", "box", kept)
    real, looks = Api.inspect, []

    def late(api: Api, name: str) -> Any:
        found = real(api, name)
        looks.append(name)
        if len(looks) == look:
            words = ("start", kept) if what == "start" else ("rename", kept, "box")
            engine.run(*words, check=False)
        return found

    monkeypatch.setattr(Api, "inspect", late)
    try:
        got = remove_kept.main({"socket": str(engine.socket), "id": ident, "kept": kept})
        if look == 1:  # they were first
            assert "refused" in got, got
            assert engine.inspect(ident)["Name"] == f"/{kept if what == 'start' else 'box'}"
            assert engine.inspect(ident)["State"]["Running"] is (what == "start")
        else:  # it has no name any more that they know
            assert got["said"], got
    finally:
        engine.run("rm", "-f", ident, check=False)


def test_a_dead_container_that_somebody_starts_while_it_is_recreated(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs again under its own name, and no second one is left beside it."""
    engine.create("dead", "sleep", "1000")
    ident = engine.inspect("dead")["Id"]
    engine.run("kill", "dead")
    engine.wait_status("dead", "exited")
    step = next(s for p in World(engine, "dead").judge().plans for s in p.steps if s.kind == "recreate-container")
    real = recreate.set_aside

    def late(api: Api, *more: Any) -> None:
        engine.run("start", ident)
        real(api, *more)

    monkeypatch.setattr(recreate, "set_aside", late)
    try:
        got = recreate.main(dict(step.args))
        assert got.keys() & {"refused", "failed"}, got
        now = engine.inspect("dead")
        assert (now["Id"], now["State"]["Running"]) == (ident, True)
        assert engine.run("ps", "-aq", "--no-trunc", "--filter", "name=dead").split() == [ident]
    finally:
        engine.run("rm", "-f", "dead", check=False)


def test_an_application_in_a_container_that_was_started_again(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is ended lived in the life that was judged: the list is taken before the life is compared."""
    script = "sleep 999 & sleep 1000"
    engine.create("app", "sh", "-c", script)
    it = engine.inspect("app")
    ask = {"engine": list(engine.argv), "socket": str(engine.socket), "id": it["Id"], "match": "sleep 999", "detached": True,
           "started_at": it["State"]["StartedAt"].rstrip("Z")[:26], "start": ["sleep", "998"]}  # fmt: skip
    real = restart_application.leftovers

    def late(ident: str, match: str) -> Any:
        found = real(ident, match)
        engine.run("restart", "-t", "0", "app")
        return found

    monkeypatch.setattr(restart_application, "leftovers", late)
    try:
        assert "was started again" in restart_application.main(ask)["refused"]
        assert "sleep 998" not in engine.run("exec", "app", "ps")
        assert "sleep 999" in engine.run("exec", "app", "ps")
    finally:
        engine.run("rm", "-f", "app", check=False)


def test_a_unit_that_was_started_again_in_that_moment_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """systemd has no stop of one life only: another life that was stopped is told as a failure."""
    lives = iter(["one", "two"])

    def systemctl(*words: str, **_: Any) -> str:
        if "InvocationID" in words:
            return next(lives) + "\n"
        return "inactive\n" if "ActiveState" in words else ""

    monkeypatch.setattr(stop_unit, "systemctl", systemctl)
    assert "was started again in this very moment" in stop_unit.main({"unit": "u.service", "life": "one"})["failed"]


def test_an_image_that_changes_right_before_the_nameless_ones_go(engine: Engine) -> None:
    """One that gets a name or a container stays; one that loses its name in that moment goes, which the report says."""
    tar = str(engine.folder / "bb.tar")
    named, used, left = (engine.run("import", "--message", what, tar).strip() for what in ("named", "used", "left"))
    engine.run("tag", left, "left:1")
    assert len({named, used, left}) == 3
    step = Step(kind="free-engine-space", owner="n", args={"engine": list(engine.argv)}, commands=(), effect="")

    def others() -> None:
        engine.run("tag", named, "kept:1")
        engine.run("create", "--name", "user", used, "sleep")
        engine.run("tag", "bb:1", "left:1")  # the name goes to another one

    with meanwhile(act_engine, "command", others, before=True):
        said = act_engine.free_engine_space(step, World(engine, "user").context).said
    try:
        there = engine.run("images", "-aq", "--no-trunc").split()
        assert (named in there, used in there, left in there) == (True, True, False)
        assert "also what lost its name since the judgment" in said[-1]
    finally:
        engine.run("rm", "-f", "user", check=False)
