"""A text alone is no last word: it never says that all is well, every cause stands behind its check, and nothing is destroyed."""

import json
import re
from pathlib import Path

import pytest

from deployments.cli.triage import main
from runbooks.triage.advice import AFTER_CHECK, mild
from runbooks.triage.load import library
from runbooks.triage.model import TriageResult
from runbooks.triage.render import render
from runbooks.triage.text import findings_of, judge_lines
from tests.corpus.measure import excerpts

WELL = re.compile(r"(?i)nothing is (?:wrong|broken)|all is well|healthy|no fault|points to a fault|nothing wrong")
DESTROYS = re.compile(
    r"(?i)\b(?:(?:delete|remove|rmdir|prune|wipe|rebuild|recreate|reinstall|reset|reboot|boot the|restart|respawn|kill|terminate|"
    r"end those|drop (?:final|duplicate)|release what|make a new one)s?\b|(?:start|make)\b[^;.]*\banew\b)"
)
FIRST = re.compile(r"(?i)\b(?:before|never|not|nothing|without|instead of|who|whether|why)\b[^;.,]*")
QUIET = ("step 1 loss 2.0", "", "\n" * 50, "INFO started\nINFO ready\n", "all good, exit code 0")


@pytest.mark.parametrize("text", QUIET)
def test_a_quiet_text_is_no_word_about_the_machine(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.log").write_text(text)
    assert main([str(tmp_path / "x.log")]) == 3
    said = capsys.readouterr().out
    assert said.startswith(f"Nothing known to me in these {len(text.splitlines())} lines")
    assert not WELL.search(said)


@pytest.mark.parametrize("text", QUIET)
def test_what_programs_read_says_no_more_than_the_words(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.log").write_text(text)
    assert main(["--json", str(tmp_path / "x.log")]) == 3
    assert json.loads(capsys.readouterr().out)["verdict"] == "nothing-known-to-me"


def test_of_every_answer_the_head_and_the_verdict_for_programs_say_the_same() -> None:
    for verdict in ("nothing", "benign", "causes", "not-enough"):
        outcome = TriageResult(verdict=verdict, lines_read=7)
        known_nothing = render(outcome).startswith("Nothing known to me")
        assert str(outcome.data()["verdict"]).startswith("nothing-known-to-me") == known_nothing
    assert len({TriageResult(verdict=v).data()["verdict"] for v in ("nothing", "benign", "causes", "not-enough")}) == 4


@pytest.mark.parametrize(("every", "least"), [(5, 60), pytest.param(1, 300, marks=pytest.mark.soak)])
def test_no_answer_to_any_text_says_that_all_is_well(every: int, least: int) -> None:
    """Over the corpus: exit 1 or 3, a check before every advice, and no advice that destroys or restarts."""
    named = 0
    for excerpt in excerpts()[::every]:
        outcome = judge_lines(excerpt.text, excerpt.facts)
        head, *rest = render(outcome).split("\n\n")
        assert outcome.exit_code == (1 if outcome.verdict == "causes" else 3)
        assert not WELL.search(head), excerpt.id
        for cause in outcome.causes:
            named += 1
            (part,) = [p for p in rest if p.splitlines()[0].endswith(f" {cause.family}/{cause.slug}")]
            assert part.split(". ", 1)[1].startswith("Candidate: "), excerpt.id
            (advice,) = [line for line in part.splitlines() if line.startswith("   if this check shows it (")]
            assert " ".join(cause.decided_by[0].split()).rstrip(".") in advice
            assert not DESTROYS.search(FIRST.sub("", cause.remedy)), (excerpt.id, cause.remedy)
    assert named >= least


def test_of_every_known_cause_only_what_is_harmless_is_advised() -> None:
    held_back = 0
    for known in library().causes:
        remedy, left_out = mild(known.cause.remedy)
        held_back += left_out
        assert not DESTROYS.search(FIRST.sub("", remedy)), (known.slug, remedy)
        assert left_out or remedy == " ".join(known.cause.remedy.split()).rstrip(";, ")
    assert held_back >= 60


@pytest.mark.parametrize(
    ("remedy", "left"),
    [
        ("Read its log; if that is not enough, restart the autoscaler.", "Read its log"),  # "not" is said of something else
        ("Read its log before it is restarted.", "Read its log before it is restarted."),
        ("Load the driver (or boot the machine); then start it.", ""),
        ("Look at it; end those that are idle.", "Look at it"),
        ("Turn it off (`x` in its template; keep a policy) and start the job anew.", "Turn it off"),
        ("Quote it, or drop the zero.", "Quote it, or drop the zero."),
    ],
)
def test_what_ends_or_begins_something_anew_is_cut_off(remedy: str, left: str) -> None:
    assert mild(remedy) == (left, left != remedy)


def test_what_is_held_back_is_said() -> None:
    text = "NVRM: Xid (PCI:0000:06:00): 119, pid=1234, name=python, Timeout after 6s of waiting for RPC response from GPU0 GSP!"
    outcome = judge_lines(text)
    assert [c.slug for c in outcome.causes if c.held_back], outcome
    assert AFTER_CHECK in render(outcome)
    assert all(f.action.startswith("if this check shows it (") for f in findings_of(text, "its log", "container-death"))
