"""Approver codes: RFC 6238, used once, no guessing, and what the engine makes of them."""

import json
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from httpx import TransportError
from prefect.context import SettingsContext, get_settings_context

from flows import store
from flows.engine import answers
from flows.engine.answers import check_answer
from flows.engine.approval import answer_run
from flows.engine.used_codes import first_use
from runbooks.core.plan import Plan, Step
from runbooks.core.totp import STEP_S, base32, code_at, matching_step, provisioning_uri
from tasks.approvers import ledger, secrets
from tasks.approvers.ledger import MOST_WRONG, CodeCheck, FirstUse
from tasks.approvers.secrets import NoSecrets, put_approver, read_approvers
from tasks.context import utc_now
from tests.support.arguments import sample
from tests.support.engine_rig import Rig, World
from tests.support.toy import acts_done, install

RFC = b"12345678901234567890"
AT = datetime(2026, 3, 7, 3, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "code"),
    [(59, "287082"), (1111111109, "081804"), (1111111111, "050471"), (1234567890, "005924"), (20000000000, "353130")],
)
def test_codes_are_those_of_rfc_6238(seconds: int, code: str) -> None:
    at = datetime.fromtimestamp(seconds, UTC)
    assert matching_step(RFC, code, at) == seconds // STEP_S
    assert matching_step(RFC, code, at + timedelta(seconds=STEP_S)) == seconds // STEP_S
    assert matching_step(RFC, code, at + timedelta(seconds=3 * STEP_S)) is None


def test_codes_that_are_none() -> None:
    for bad in ("", "12345", "1234567", "abcdef", "２８７０８２", "28708²"):
        assert matching_step(RFC, bad, AT) is None


def test_address_for_the_phone() -> None:
    assert base32(RFC) == "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ"
    assert provisioning_uri("ana b", RFC).startswith("otpauth://totp/gpu-runbooks:ana%20b?secret=GEZDGNBV")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GPU_RUNBOOKS_HOME", str(tmp_path))
    put_approver("ana", RFC)
    return tmp_path


def right(at: datetime) -> str:
    return code_at(RFC, int(at.timestamp()) // STEP_S)


class Book:
    """The used codes of all machines, in this process."""

    def __init__(self) -> None:
        self.used: dict[tuple[str, int], str] = {}

    def __call__(self, name: str, step: int, question: str) -> str:
        return self.used.setdefault((name, step), question)


def check_code(name: str, code: str, question: str, at: datetime, book: FirstUse | None = None) -> CodeCheck:
    return ledger.check_code(name, code, question, at, book or Book())


def test_a_code_counts_once_and_for_one_question(home: Path) -> None:
    assert check_code("ana", right(AT), "q1", AT).ok
    assert check_code("ana", right(AT), "q1", AT + timedelta(hours=3)).ok  # the run went on later: same verdict
    assert "used before" in check_code("ana", right(AT), "q2", AT).said
    assert check_code("ana", right(AT + timedelta(seconds=30)), "q3", AT).ok


def on_machine(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another worker, to which the approvers' file was copied."""
    monkeypatch.setenv("GPU_RUNBOOKS_HOME", str(folder))
    put_approver("ana", RFC)


def test_a_code_counts_once_on_all_machines(rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second machine never heard of it; the same question is judged alike there, where the run may go on."""
    code, first, second = right(AT), f"{tmp_path}/first", f"{tmp_path}/second"
    for machine in ("one", "two", "three"):
        on_machine(tmp_path / machine, monkeypatch)
        assert check_code("ana", code, first, AT, first_use).ok
    on_machine(tmp_path / "four", monkeypatch)
    assert "used before" in check_code("ana", code, second, AT, first_use).said
    assert "used before" in check_code("ana", code, second, AT, first_use).said
    assert check_code("ana", right(AT + timedelta(seconds=30)), second + "'", AT, first_use).ok


def test_ten_machines_given_one_code_at_once_take_it_once(rig: Rig, tmp_path: Path) -> None:
    asked = [f"{tmp_path}/q{i}" for i in range(10)]
    step = int(AT.timestamp()) // STEP_S + 1000
    settings = get_settings_context()

    def give(question: str) -> str:
        with SettingsContext(profile=settings.profile, settings=settings.settings):
            return first_use("ana", step, question)

    with ThreadPoolExecutor(10) as pool:
        said = list(pool.map(give, asked))
    assert len(set(said)) == 1
    assert sum(one == question for one, question in zip(said, asked, strict=True)) == 1


def test_no_code_counts_where_its_use_cannot_be_recorded(home: Path) -> None:
    def away(*_: object) -> str:
        raise TransportError("the server is away")

    assert "cannot be kept (TransportError)" in check_code("ana", right(AT), "q", AT, away).said
    assert check_code("ana", right(AT), "q", AT).ok, "and it is not spent by that"


def test_guessing_locks_the_name_for_an_hour(home: Path) -> None:
    for i in range(MOST_WRONG):
        assert check_code("ana", "000000", f"q{i}", AT).said == "wrong code"
    assert "locked" in check_code("ana", right(AT), "right", AT).said
    later = AT + timedelta(minutes=61)
    assert check_code("ana", right(later), "later", later).ok


def test_the_secrets_file_is_for_its_owner_only(home: Path) -> None:
    path = home / "approvers.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o644)
    with pytest.raises(NoSecrets, match="chmod 600"):
        read_approvers()
    assert not check_code("ana", right(AT), "q", AT).ok
    path.chmod(0o600)
    path.write_text("{", encoding="utf-8")
    assert not check_code("ana", right(AT), "q", AT).ok  # damaged: nobody is let in
    with pytest.raises(NoSecrets, match="damaged"):
        put_approver("bo", secrets.new_secret())


def plan(kind: str) -> Plan:
    step = Step(kind=kind, owner="n", args=sample(kind), commands=(), effect="")
    return Plan(name="p", steps=(step,), for_causes=("c",))


def test_who_is_asked_for_a_code(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install()
    monkeypatch.setattr(answers, "first_use", Book())

    def taken(kind: str, who: str, code: str, approvers: tuple[str, ...], decision: str = "approve") -> bool:
        answer = {"decision": decision, "who": who, "code": code}
        return check_answer(answer, "run", f"{kind}{who}{code}", plan(kind), approvers, AT).taken

    assert taken("toy-wipe", "x", "", ())  # no approvers: as typed
    assert taken("toy-fix", "x", "", ("ana",))
    assert taken("toy-wipe", "x", "", ("ana",), "reject")
    assert not taken("toy-wipe", "ana", "", ("ana",))
    assert not taken("toy-wipe", "ana", "000000", ("ana",))
    assert not taken("toy-fix", "ana", "000000", ("ana",))  # a wrong code is never passed over
    assert not taken("toy-wipe", "bo", right(AT), ("ana",))
    assert not taken("toy-wipe", "bo", right(AT), ("ana", "bo"))  # bo has no secret here
    assert taken("toy-wipe", "ana", right(AT), ("ana",))
    assert not taken("toy-wipe", "ana", "link:AAAA:" + right(AT), ("ana",))


def code_now(secret: bytes) -> str:
    return code_at(secret, int(utc_now().timestamp()) // STEP_S)


@pytest.fixture
def wiped(rig: Rig) -> tuple[World, Callable[[], str]]:
    """A world whose plan is destructive, under a policy with an approver; and ana's code."""
    secret = secrets.new_secret()
    put_approver("ana", secret)
    policy = rig.home / "codes.yaml"
    policy.write_text(rig.policy.read_text() + "approvers: [ana]\n", encoding="utf-8")
    w = rig.world(identity=f"wipe {len(list(rig.worlds.iterdir()))}")
    return w, lambda: code_now(secret)


@pytest.mark.soak  # by link it is tested each time
def test_a_destructive_plan_needs_the_code_and_asks_again_without(rig: Rig, wiped: tuple[World, Callable[[], str]]) -> None:
    w, code = wiped
    run = w.run("approve", policy=str(rig.home / "codes.yaml"))
    assert store.read_run(run).labels["approval.codes"] == "needed"
    assert answer_run(run, {"decision": "approve", "who": "ana", "code": "000000"}) == ""
    w.work()
    assert store.read_run(run).labels["outcome"] == "waiting"
    assert acts_done(rig.worlds, w.name) == []
    given = code()
    assert answer_run(run, {"decision": "approve", "who": "ana", "code": given}) == ""
    w.work()
    assert store.read_run(run).labels["outcome"] == "fixed"
    (report,) = w.reports()
    assert report["permission"]["checked"] == "approver code"
    assert any("wrong code" in g for g in report["guards"])
    assert given not in json.dumps(report)
    assert "verified by approver code" in next(iter(w.out.rglob("2*.md"))).read_text()
