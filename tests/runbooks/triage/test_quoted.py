"""A line that only quotes the words of a fault is no evidence of it: the same words said are."""

import random
import re

import pytest

from runbooks.triage.load import library
from runbooks.triage.quoted import QUOTED, without_quotes
from runbooks.triage.seldom import Seldom
from runbooks.triage.text import judge_lines
from tests.runbooks.triage.slowly import altered, told

QUOTES = (
    "$ grep -c '{}' train.log",
    'root@node-1:~# dmesg | grep -i "{}"',
    'If you see "{}", restart the job.',
    'tip: in case of "{}" look at the head first',
    "since the restart there are no more '{}'",
    "the log has no '{}' and ends in the middle of a step",
    'we did not see "{}" on the other node',
    '        raise RuntimeError("{}")',
    '    if "{}" in line:',
    'train.py:120:    logger.error("{}")',
    '120:    print("{}")',
    "    - regex: '{}'",
    "expr: '{}'",
    "PASSED tests/test_errors.py::test_text[{}]",
    "INFO resolved: {}",
    "[RESOLVED] {}",
    "- Fixed: {} (#1234)",
    'log_lines_total{{text="{}"}} 0',
    "# HELP log_lines_total {}",
    'summary: "{} on {{{{ $labels.instance }}}}"',
    "    Fix {} in the evaluation",
    "5c1d0be7 Handle {} in the loader",
)
SAID = (
    "RuntimeError: {}",
    'log_lines_total{{text="{}"}} 3',
    "2026-11-02 10:00:00,123 ERROR trainer: {}",
    "(Trainer pid=42, ip=10.0.0.2) {}",
    "the job failed with {}",
    "- fixed the batch size, still: {}",
    "if it runs alone it works, else: {}",
    "E       RuntimeError: {}",
    "error: {}",
)
FAULT = "NCCL WARN Bootstrap : no socket interface found"


@pytest.mark.parametrize("form", QUOTES)
def test_a_quoted_fault_is_none(form: str) -> None:
    found = judge_lines(form.format(FAULT))
    assert (found.causes, found.inconclusive) == ((), ())


@pytest.mark.parametrize("form", SAID)
def test_a_said_fault_stays_one(form: str) -> None:
    assert [c.slug for c in judge_lines(form.format(FAULT)).causes]


def test_no_example_is_taken_for_a_quotation() -> None:
    """Every signature's own words are something that is said."""
    lines = [x for k in library().causes for s in k.cause.signatures for x in s.example.split("\n")]
    cut = [x for x in lines if without_quotes(x) != x]
    assert len(cut) <= 8, cut  # typed commands: what they search for is cut, not what they are


def test_checks_that_passed_questions_and_advice_for_a_case_are_no_evidence() -> None:
    for line in (
        "Check for uncorrectable ECC errors....................... Healthy",
        "Can two jobs with the same run id share one etcd?",
        "If there is an Xid 79, drain the node and open a case.",
        "When `docker ps` hangs, look at dockerd first.",
        "- Fixed: a hang at the end of an epoch when ranks had a different number of batches.",
        '> +        if error.response["Error"]["Code"] in ("SlowDown", "503"):',
    ):
        assert judge_lines(line).causes == (), line
    for line in (
        "Check for uncorrectable ECC errors....................... Unhealthy",
        "Why do two jobs with the same run id end up in one rendezvous?",
        "When we looked at it there was an Xid 79.",
        "docker ps hangs, the dockerd process is there",
    ):
        assert judge_lines(line).causes, line


def test_the_faster_look_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runbooks.triage.seldom.PATIENCE", 0)
    rng, quick = random.Random(4), Seldom(QUOTED.pattern)
    lines = [
        *rng.sample(told(), 250),
        *(altered(x, rng) for x in rng.sample(told(), 250)),
        *(q.format(x) for q in QUOTES for x in rng.sample(told(), 8)),
    ]
    assert [x for x in lines if quick.cut_out(x) != re.sub(QUOTED.pattern, "", x)] == []
