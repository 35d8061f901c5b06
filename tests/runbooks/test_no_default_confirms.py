"""What no branch of a judgment knows confirms nothing: kinds of another version, codes of several things, numbers that name nobody."""

from pathlib import Path
from typing import Any

import pytest

from runbooks.checkpoint.evidence import Evidence as Checkpoints
from runbooks.container.evidence import Evidence as Containers
from runbooks.core.reading import Known
from runbooks.core.verdict import Certainty, Diagnosis
from runbooks.data.evidence import DataFile, Fault
from runbooks.data.evidence import Evidence as Data
from tests.incidents import unseen
from tests.runbooks.checkpoint.test_situations import evidence as checkpoints
from tests.runbooks.container import test_situations as containers
from tests.runbooks.every import Situation, situations
from tests.runbooks.more_sick import AT, OOM, memory
from tests.support.situations import merge


def judged(runbook: str, evidence: Any) -> Diagnosis:
    case = next(s for s in situations() if s.runbook == runbook)
    return Situation(runbook, "", evidence, case.limits).judge()


def sure(found: Diagnosis) -> list[str]:
    return [c.slug for c in found.causes if c.certainty is Certainty.CONFIRMED]


def test_a_limit_of_another_version_is_no_unreadable_checkpoint() -> None:
    def with_limit(kind: str) -> Checkpoints:
        more = {"limits": [{"kind": kind, "detail": "as it was read"}]}
        return checkpoints({"tiers": [{"name": "nvme", "c": [[300, "whole", more], [200, "proven"]]}]})[0]

    assert sure(judged("checkpoint-fallback", with_limit("unreadable"))) == ["unreadable"]
    found = judged("checkpoint-fallback", with_limit("of-a-later-version"))
    assert [(c.slug, c.certainty) for c in found.causes] == [("beyond-reader", Certainty.POSSIBLE)]


def test_a_fault_of_another_version_is_no_confirmed_bad_record() -> None:
    def with_fault(kind: str) -> Data:
        file = DataFile(path="/d/a", kind="jsonl", faults=(Fault(kind=kind, detail="as read"),))
        return Data(node="a", taken_at=AT, files={"/d/a": Known[DataFile](value=file)}, log=Known[str](value="epoch 1"))

    assert sure(judged("data-check", with_fault("bad-line"))) == ["bad-record"]
    found = judged("data-check", with_fault("of-a-later-version"))
    assert [(c.slug, c.certainty) for c in found.causes] == [("bad-record", Certainty.LIKELY)]
    assert "of-a-later-version" in found.causes[0].decides[0]


@pytest.mark.parametrize(("code", "confirmed"), [(255, True), (1, True), (129, False), (130, False), (141, False), (192, False)])
def test_a_code_that_a_signal_leaves_is_no_confirmed_error(code: int, confirmed: bool) -> None:
    """128 + a signal: somebody sent it, or the program returns that number itself."""
    found = judged("container-death", _ended(code))
    assert (sure(found) == ["main-exited-error"]) is confirmed, found
    if not confirmed:
        assert [(c.slug, c.certainty) for c in found.causes] == [("main-exited-error", Certainty.LIKELY)]
        assert f"signal {code - 128}" in found.causes[0].decides[0]


def _ended(code: int) -> Containers:
    change = {"container": {"value": {"exit_code": code}}}
    return Containers.model_validate(merge(containers.BASE, change))


def test_numbers_that_name_nobody_make_no_model_too_large() -> None:
    assert "model-too-large" in sure(judged("memory-pressure", memory(OOM.format(tried=8, free=6, mine=74))))
    found = judged("memory-pressure", memory(OOM.format(tried=0, free=78, mine=2)))
    assert not sure(found)
    assert [(c.slug, c.certainty) for c in found.causes] == [("out-of-memory-bare", Certainty.POSSIBLE)]


def test_out_of_memory_in_words_alone_shows_who_holds_the_gpu_now(tmp_path: Path) -> None:
    """JAX and others name what was asked for, not who held the rest: the driver's table is no proof, and it is shown."""
    gpu = {"total_gib": 80, "used_gib": 60.5, "processes": {777: 60}, "command": "python serve.py"}
    log = "CUDA error: out of memory\n"
    found = unseen.judge({"runbook": "memory-pressure", "given": {"log": log, "gpu": gpu}}, tmp_path)
    (cause,) = found.causes
    assert (cause.slug, cause.certainty, found.plans) == ("out-of-memory-bare", Certainty.POSSIBLE, ())
    assert "now 60.5 GiB of 80 GiB are used on GPU 0" in cause.evidence
    assert "now pid 777 holds 60 GiB there: python serve.py" in cause.evidence
