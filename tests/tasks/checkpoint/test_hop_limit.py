"""A role that reaches the machine and not its container: real answers with a real time to live, in networks of their own."""

from dataclasses import replace
from pathlib import Path

import pytest

from runbooks.checkpoint.evidence import Evidence
from runbooks.core.checkpoints import Tier
from runbooks.core.fleet import Job
from runbooks.core.reading import Known
from runbooks.core.verdict import Cause, Certainty, Diagnosis
from tests.support.ckpt_fleet import Shelf, context, look
from tests.support.instance_metadata import Instance, instance
from tests.support.s3 import S3Server

LOG = "CheckpointSaveError: [S3] Failed to save checkpoint: NoCredentialsError: Unable to locate credentials\n"


@pytest.fixture(autouse=True)
def _no_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The node's own home holds no credentials."""
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture
def store(s3: S3Server, admin: None, shelf: Shelf, tmp_path: Path) -> Tier:
    """A tier that the engine reads well."""
    (path,) = shelf.put(tmp_path / "made", 100)
    s3.client().put_object(Bucket="ckpt", Key=f"hop/{path.name}", Body=path.read_bytes())
    return Tier(name="s3", kind="s3", bucket="ckpt", prefix="hop", endpoint=s3.url)


def seen(store: Tier, machine: Instance, folder: Path, log: str = LOG) -> tuple[Evidence, Diagnosis]:
    (folder / "train.log").write_text(log)
    ctx = context(store, options={"log": str(folder / "train.log")})
    fleet = ctx.fleet.model_copy(update={"jobs": (Job(name="train", match=machine.mark),)})
    return look(replace(ctx, fleet=fleet, open_host=lambda _: machine.host))


def credentials(got: Diagnosis) -> list[Cause]:
    return [c for c in got.causes if c.slug in ("s3-hop-limit", "s3-no-credentials", "s3-wrong-credentials")]


def test_the_token_dies_on_the_way_into_the_container(store: Tier, tmp_path: Path) -> None:
    with instance(hops=1) as machine, machine.job() as pid:
        evidence, got = seen(store, machine, tmp_path)
    assert isinstance(evidence.instance_roles, Known), evidence.instance_roles
    host, container = evidence.instance_roles.value
    assert (host.pid, host.token, host.role) == (0, 200, "trainer")
    assert (container.pid, container.token, container.plain) == (pid, 0, 401)
    (cause,) = credentials(got)
    assert (cause.slug, cause.certainty) == ("s3-hop-limit", Certainty.CONFIRMED)
    assert any(f"pid {pid}" in line and "never the token request" in line for line in cause.evidence), cause.evidence


def test_the_same_with_a_hop_limit_of_two(store: Tier, tmp_path: Path) -> None:
    """The role reaches the container: what the log says is not so now, and no cause is confirmed."""
    with instance(hops=2) as machine, machine.job():
        evidence, got = seen(store, machine, tmp_path)
    assert isinstance(evidence.instance_roles, Known)
    assert [(r.token, r.role) for r in evidence.instance_roles.value] == [(200, "trainer")] * 2
    (cause,) = credentials(got)
    assert (cause.slug, cause.certainty) == ("s3-no-credentials", Certainty.LIKELY)


def test_the_job_brings_its_own_credentials(store: Tier, tmp_path: Path) -> None:
    """Then nothing is asked of the service there, and the value of a variable goes nowhere."""
    with instance(hops=1) as machine, machine.job("AWS_WEB_IDENTITY_TOKEN_FILE=/run/secret/eks-token"):
        evidence, got = seen(store, machine, tmp_path)
    assert isinstance(evidence.instance_roles, Known)
    assert evidence.instance_roles.value[1].places == ("variable AWS_WEB_IDENTITY_TOKEN_FILE",)
    assert "eks-token" not in evidence.model_dump_json()
    assert [(c.slug, c.certainty) for c in credentials(got)] == [("s3-no-credentials", Certainty.LIKELY)]


def test_no_role_at_all_is_no_matter_of_hops(store: Tier, tmp_path: Path) -> None:
    with instance(hops=2, role="") as machine, machine.job():
        _, got = seen(store, machine, tmp_path)
    assert [(c.slug, c.certainty) for c in credentials(got)] == [("s3-no-credentials", Certainty.CONFIRMED)]


def test_a_log_that_says_nothing_of_it_accuses_nobody(store: Tier, tmp_path: Path) -> None:
    with instance(hops=1) as machine, machine.job():
        _, got = seen(store, machine, tmp_path, "step 100 loss 2.1\n")
    assert [(c.slug, c.certainty) for c in credentials(got)] == [("s3-hop-limit", Certainty.POSSIBLE)]
