"""The knowledge of checkpoint-fallback: every cause that is judged is described, known logs are judged as they were."""

import re
from pathlib import Path

import pytest

from runbooks.checkpoint import diagnose as room
from runbooks.checkpoint.candidates import BY_KIND, BY_LIMIT
from runbooks.checkpoint.limits import Limits
from runbooks.checkpoint.parsers.types import FAULTS, LIMITS
from runbooks.core.knowledge import load_runbook
from runbooks.triage.load import library
from runbooks.triage.text import judge_text

BOOK = load_runbook("checkpoint-fallback")
LOGS = {  # what the log of a public incident says, shortened and rephrased -> the cause that stands first
    "tee: log.txt: No space left on device\nRuntimeError: . PytorchStreamWriter failed writing file data/807: file "
    "write failed\n"
    "PytorchStreamReader failed reading zip archive: failed finding central directory": "truncated-by-full-disk",
    "-rw-rw-r-- 1 a a 583649007 Mar  5 21:56 checkpoint_23-shard96.pt.tmp\n"
    "-rw-rw-r-- 1 a a 0 Mar  5 21:56 checkpoint_last-shard0.pt": "killed-mid-save",
    "data/data.pt never written, only a warning": "killed-mid-save",
    "UnpicklingError: Weights only load failed. This file can still be loaded\nWeightsUnpickler error: Unsupported "
    "global: "
    "GLOBAL numpy.core.multiarray._reconstruct was not an allowed global by default.": "loader-weights-only",
    "An error occurred (403) when calling the HeadObject operation: Forbidden; other keys read well": "s3-403-missing-key",
    "SlowDown: UnknownError\nError: connect ECONNREFUSED 10.0.0.9:443": "s3-throttled",
    "AmazonS3Exception: not valid for the storage class (Status Code: 403; Error Code: InvalidObjectState)": "archived",
    "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory": "truncated",
    "CheckpointSaveError: [S3] Failed to save checkpoint: NoCredentialsError": "s3-no-credentials",
}  # fmt: skip


def test_every_judged_cause_is_described() -> None:
    folder = Path(room.__file__).parent
    text = "\n".join(p.read_text() for p in folder.glob("*.py"))
    named = set(re.findall(r'(?:cause\(|slug=|_cause\()"([a-z0-9-]+)"', text))
    named |= set(re.findall(r'"(s3-[a-z0-9-]+)"', text))
    assert named - set(BOOK.causes) == set()
    for cause in BOOK.causes.values():
        assert cause.must_not


@pytest.mark.parametrize("log", LOGS)
def test_triage_of_known_logs(log: str) -> None:
    found = [c for c in judge_text(log) if c.slug in BOOK.causes]
    assert found
    assert found[0].slug == LOGS[log]


def test_limits_fit() -> None:
    Limits(**BOOK.limit_values())


@pytest.mark.parametrize("slug", ["checkpoint-fallback", "memory-pressure", "data-check"])
def test_every_cause_brings_a_signature_to_triage(slug: str) -> None:
    for name, cause in load_runbook(slug).causes.items():
        assert cause.signatures or cause.no_text, f"{name} of {slug} has none"
        known = [k for k in library().causes if (k.family, k.slug) == (slug, name)]
        assert known, f"triage does not know {name} of {slug}"
        assert known[0].cause.signatures or known[0].cause.superseded_by or cause.no_text


def test_every_fault_and_limit_of_a_reader_has_its_cause() -> None:
    """None falls to the last else."""
    assert set(FAULTS) - set(BY_KIND) == set()
    assert set(LIMITS) - set(BY_LIMIT) == set()
    assert {*BY_KIND.values(), *BY_LIMIT.values()} <= set(BOOK.causes)
