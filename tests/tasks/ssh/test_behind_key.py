"""Real sshd instances that take the key and refuse all the same: by PAM, by a nologin file, by a command in the place of ours."""

from collections.abc import Callable
from pathlib import Path

import pytest

from deployments.lab.sshd import public_key
from runbooks.core.reading import Known
from runbooks.core.verdict import Certainty, Diagnosis, State
from runbooks.ssh.evidence import Auth, Evidence
from tests.support.sshd_pam import PamRoom
from tests.support.sshd_room import Room
from tests.tasks.ssh.test_real_sshd import context_of, look

SURE, LIKELY = Certainty.CONFIRMED, Certainty.LIKELY
BOOTING = '"System is booting up. Unprivileged users are not permitted to log in yet. Please come back later."\n'


@pytest.fixture(autouse=True)
def _no_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)


def looked(room: Room, folder: Path, way: bool = True) -> tuple[Evidence, Diagnosis]:
    """One run on the server, started for it."""
    with room.start(), context_of(room.fleet(folder, way)) as context:
        return look(context)


@pytest.mark.parametrize("way", [True, False])
def test_a_machine_that_still_boots(folder: Path, way: bool) -> None:
    """pam_nologin: its words reach the client; the file itself is seen through the other way in."""
    room = PamRoom(folder, "account required pam_nologin.so", nologin=BOOTING)
    evidence, d = looked(room, folder, way)
    shown = f"{d.model_dump_json(indent=1)}{evidence.model_dump_json(indent=1)}"
    assert isinstance(evidence.wire, Known)
    assert evidence.wire.value.auth is Auth.BROKEN, shown
    assert "System is booting up" in " ".join(evidence.wire.value.auth_heard), shown
    expected = ("logins-closed", SURE) if way else ("pam-refuses-the-account", LIKELY)
    assert [(c.slug, c.certainty) for c in d.causes] == [expected], shown
    assert "System is booting up" in d.headline
    assert not d.plans


def test_the_words_of_a_module_that_nobody_wrote_a_rule_for(folder: Path) -> None:
    """pam_access writes why into the system log only; sshd's process is what joins that line to this log-in."""
    rules = folder / "access"
    rules.write_text("-:ALL EXCEPT root:ALL\n")
    rules.chmod(0o644)
    room = PamRoom(folder, f"account required pam_access.so accessfile={rules}")
    evidence, d = looked(room, folder)
    log = room.read_log()
    assert "pam_access(sshd:account)" in log
    assert [(c.slug, c.certainty) for c in d.causes] == [("pam-refuses-the-account", SURE)], evidence.model_dump_json(indent=1)
    assert "pam_access(sshd:account): access denied for user" in d.causes[0].evidence[0], log
    assert "pam_access" in d.headline


def test_pam_that_lets_in_is_well(folder: Path) -> None:
    evidence, d = looked(PamRoom(folder, "account required pam_permit.so"), folder)
    assert d.state is State.HEALTHY, evidence.model_dump_json(indent=1)


def force(room: Room) -> None:
    room.keys.write_text(f'command="echo Please login as the user ubuntu" {public_key(room.key)}\n')


@pytest.mark.parametrize(
    ("before", "slug", "certainty"),
    [
        (force, "forced-by-the-key", SURE),
        (lambda room: room.options.update(ForceCommand="echo only this"), "forced-by-the-server", SURE),
        (lambda room: room.options.update(ChrootDirectory="/etc"), "chroot-without-shell", SURE),
        (lambda room: room.account("/bin/true", "*"), "shell-does-not-answer", SURE),
    ],
)
def test_what_stands_in_the_place_of_the_command_is_named(
    folder: Path, before: Callable[[Room], object], slug: str, certainty: Certainty
) -> None:
    room = Room(folder)
    before(room)
    with room:
        with context_of(room.fleet(folder)) as context:
            evidence, d = look(context)
        assert [(c.slug, c.certainty) for c in d.causes] == [(slug, certainty)], evidence.model_dump_json(indent=1)
        with context_of(room.fleet(folder, way=False)) as context:
            _, blind = look(context)
        assert [(c.slug, c.certainty) for c in blind.causes] == [("shell-does-not-answer", LIKELY)]
        assert any("command= in authorized_keys" in line for line in blind.do_now)
