"""The commands of a report, pasted into a shell, repair the log-in: judged on a real sshd before and after."""

import shlex
import sys
from pathlib import Path

import pytest

from runbooks.core.fleet import KeySource
from runbooks.core.verdict import State
from runbooks.ssh.plans import OWNER
from tests.support.printed import by_hand
from tests.support.sshd_room import Room
from tests.tasks.ssh.test_key_in_secret import blocks
from tests.tasks.ssh.test_real_sshd import CASES, Case, context_of, look

__all__ = ["blocks"]
FIXED = [c for c in CASES if c.fixed_by]


@pytest.fixture(autouse=True)
def _no_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)


@pytest.mark.parametrize("case", FIXED, ids=lambda c: str(c.name))
def test_what_is_printed_repairs_the_log_in(case: Case, folder: Path) -> None:
    room = Room(folder, options=case.options, **case.room)
    case.before(room)
    with room.start():
        fleet = room.fleet(folder, **case.after(room))
        with context_of(fleet) as context:
            _, found = look(context)
        steps = [s for p in found.plans for s in p.steps]
        assert tuple(s.kind for s in steps) == case.fixed_by
        for step in steps:
            way = () if step.owner == OWNER else ("nsenter", "-t", str(room.pid), "-m")
            done = by_hand([step], *way)
            assert done.returncode == 0, (step.commands, done.stderr)
            if "aside" in step.args:
                assert Path(step.args["aside"]).is_file(), "the file as it was is kept where the plan says"
        with context_of(fleet) as context:
            evidence, proof = look(context)
        assert proof.state is State.HEALTHY, f"{proof.headline}\n{steps[0].commands}\n{evidence.model_dump_json(indent=1)}"


def test_what_is_printed_repairs_a_block(folder: Path, blocks: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The printed program itself; the server's blocks are stood in for in this process."""
    room = Room(folder)
    blocks["node-key"] = damaged = room.key.read_text().replace("\n", "\\n")
    with room.start(), context_of(room.fleet(folder, key=KeySource(secret="node-key"))) as context:
        (step,) = [s for p in look(context)[1].plans for s in p.steps]
        program = shlex.split(step.commands[0])
        assert program[:2] == ["python3", "-c"]
        monkeypatch.setattr(sys, "argv", program[1:2] + program[3:])
        exec(program[2], {})  # noqa: S102 - what the report prints
        assert blocks == {"node-key": room.key.read_text(), step.args["aside"]: damaged}
    with room.start(), context_of(room.fleet(folder, key=KeySource(secret="node-key"))) as context:
        assert look(context)[1].state is State.HEALTHY
