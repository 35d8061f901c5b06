"""A real etcd that asks who is there: client certificates, users of the v2 and the v3 API, and what is said without."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from runbooks.core.plan import Step
from runbooks.core.rendezvous_config import Rendezvous
from runbooks.core.verdict import Diagnosis
from runbooks.rendezvous.evidence import Evidence
from tasks.rendezvous.act import defragment_etcd
from tests.support.etcd_secure import PASSWORD, SecureEtcd, secure_etcd
from tests.support.rendezvous import act, context_of, fast, look, place, slugs
from tests.tasks.rendezvous.test_etcd_acts import dead_run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("secure")


@pytest.fixture(scope="module")
def etcd(folder: Path) -> Iterator[SecureEtcd]:
    with secure_etcd(folder, "--quota-backend-bytes=2000000") as server:
        dead_run(server, "job")
        server.require_users()
        (folder / "password").write_text(PASSWORD + "\n")
        (folder / "wrong").write_text("guess-guess-guess\n")
        yield server


def ask(where: Rendezvous, folder: Path) -> tuple[Evidence, Diagnosis]:
    evidence, d = look(fast(context_of(where, folder / "reports", "t/job")))
    assert PASSWORD not in evidence.model_dump_json() + d.model_dump_json()
    return evidence, d


@pytest.mark.parametrize(
    ("tls", "auth", "said"),
    [
        ({"ca": None}, None, "certificate verify failed"),
        ({"cert": None, "key": None}, None, "tls: "),
        ({"cert": "/nowhere.pem"}, None, "/nowhere.pem"),
        ({}, None, "credentials: etcd wants a user"),
        ({}, {"user": "root", "password_file": "wrong"}, "credentials: etcd wants a user"),
        ({}, {"user": "root", "password_file": "absent"}, "the password file"),
        ({}, {"user": "root", "password_env": "NOT_SET_HERE"}, "the variable NOT_SET_HERE is not set"),
    ],
)
def test_what_is_refused_is_named_and_nothing_is_planned(
    etcd: SecureEtcd, folder: Path, tls: dict[str, str], auth: dict[str, str] | None, said: str
) -> None:
    """Not "down", not "stale": etcd does not let us in."""
    if auth and "password_file" in auth:
        auth = auth | {"password_file": str(folder / auth["password_file"])}
    _, d = ask(place(etcd.url, tls=etcd.tls | tls, auth=auth), folder)
    assert slugs(d) == ["etcd-access"], d
    assert said in d.causes[0].evidence[0]
    assert d.plans == ()


def test_plain_http_to_a_tls_port(etcd: SecureEtcd, folder: Path) -> None:
    _, d = ask(place(etcd.url.replace("https", "http")), folder)
    assert slugs(d) == ["etcd-access"], d


def test_with_certificate_and_user_a_dead_run_is_cleared(
    etcd: SecureEtcd, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Password from a file and from the environment; alarms by the v3 API with a token of its own."""
    monkeypatch.setenv("ETCD_PASSWORD", PASSWORD)
    for auth in ({"password_file": str(folder / "password")}, {"password_env": "ETCD_PASSWORD"}):
        where = place(etcd.url, tls=etcd.tls, auth={"user": "root"} | auth)
        evidence, d = ask(where, folder)
        assert slugs(d) == ["closed-round"], d
        assert evidence.etcd.kind == "known"
        assert evidence.etcd.value.alarms.kind == "known", evidence.etcd.value.alarms
        assert evidence.etcd.value.db_bytes
    context = fast(context_of(where, folder / "reports", "t/job"))
    args = {"rendezvous": "t", "endpoint": etcd.url}
    said = defragment_etcd(Step(kind="defragment-etcd", owner="e", args=args, commands=(), effect=""), context).said
    assert said[0].startswith("compacted")
    act(d.plans[0], context)
    assert etcd.leaves() == {}
    (saved,) = (folder / "reports" / "rendezvous").glob("*.json")
    assert PASSWORD not in saved.read_text()
    assert json.loads(saved.read_text())["run"] == "job"
