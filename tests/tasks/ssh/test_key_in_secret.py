"""A damaged key in a Prefect Secret block is put right there; blocks are stood in for, log-in and sshd are real."""

from pathlib import Path

import pytest

from runbooks.core.fleet import KeySource
from runbooks.core.verdict import State
from tasks.context import ActionRefused
from tasks.credentials import write_secret
from tasks.ssh.act_keys import normalise_secret
from tests.support.sshd_room import Room
from tests.tasks.ssh.test_real_sshd import context_of, look


@pytest.fixture
def blocks(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The Secret blocks of a server, by name."""
    from prefect.blocks.system import Secret

    held: dict[str, str] = {}

    def load(name: str, **_: object) -> "Secret[str]":
        if name not in held:
            raise ValueError("Unable to find block document")
        return Secret(value=held[name])

    def save(block: "Secret[str]", name: str, **_: object) -> None:
        held[name] = str(block.get())

    monkeypatch.setattr(Secret, "load", staticmethod(load))
    monkeypatch.setattr(Secret, "save", save)
    return held


def test_a_damaged_key_in_a_secret_is_put_right_there(folder: Path, blocks: dict[str, str]) -> None:
    room = Room(folder)
    blocks["node-key"] = damaged = room.key.read_text().replace("\n", "\\n")
    with room.start(), context_of(room.fleet(folder, key=KeySource(secret="node-key"))) as context:
        evidence, d = look(context)
        assert (d.causes[0].slug, str(d.causes[0].certainty)) == ("key-file-unparsable", "confirmed")
        (step,) = [s for p in d.plans for s in p.steps]
        assert step.kind == "normalise-secret"
        assert damaged[60:90] not in evidence.model_dump_json() + d.model_dump_json()
        other = step.model_copy(update={"args": step.args | {"identity": "another"}})
        with pytest.raises(ActionRefused, match="has changed"):
            normalise_secret(other, context)
        said = normalise_secret(step, context).said
        assert damaged[60:90] not in str(said)
        assert blocks["node-key"] == room.key.read_text()
        aside = [n for n in blocks if n != "node-key"]
        assert [blocks[n] for n in aside] == [damaged]
        assert look(context)[1].state is State.HEALTHY
        with pytest.raises(ActionRefused):
            normalise_secret(step, context)


def test_another_blocks_key_is_never_touched(folder: Path, blocks: dict[str, str]) -> None:
    room = Room(folder)
    blocks["node-key"] = blocks["theirs"] = room.key.read_text().rstrip("\n")
    with room.start(), context_of(room.fleet(folder, key=KeySource(secret="node-key"))) as context:
        (step,) = [s for p in look(context)[1].plans for s in p.steps]
        with pytest.raises(ActionRefused, match="is not the key of"):
            normalise_secret(step.model_copy(update={"args": step.args | {"block": "theirs"}}), context)
    assert len(blocks) == 2


def test_a_block_that_changes_in_that_moment_stays(
    folder: Path, blocks: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody rotates the key while the old text is put aside; Prefect compares nothing, so the report names the moment."""
    room = Room(folder)
    blocks["node-key"] = damaged = room.key.read_text().replace("\n", "\\n")

    def rotated(block: str, value: str) -> None:
        write_secret(block, value)
        if block != "node-key":
            blocks["node-key"] = "rotated"

    with room.start(), context_of(room.fleet(folder, key=KeySource(secret="node-key"))) as context:
        (step,) = [s for p in look(context)[1].plans for s in p.steps]
        with monkeypatch.context() as patch:
            patch.setattr("tasks.ssh.act_keys.write_secret", rotated)
            with pytest.raises(ActionRefused, match="in this very moment"):
                normalise_secret(step, context)
        assert blocks["node-key"] == "rotated"
        blocks["node-key"] = damaged
        assert "could not be seen" in normalise_secret(step, context).said[-1]
