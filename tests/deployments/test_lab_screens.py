"""A rehearsal shows one screen a step, and the question right above its prompt."""

from pathlib import Path
from typing import Any

import pytest

from deployments.lab import screens
from deployments.lab.scenario import Scene
from deployments.lab.zombie_gpu import STORY
from runbooks.core.outcome import Outcome
from tasks.report_store import to_json
from tests.core.samples import report
from tests.deployments.test_display import at_a_terminal, words_of

SCREEN = 24  # lines of 80 columns


@pytest.fixture
def facts(tmp_path: Path) -> dict[str, Any]:
    sample = report()
    (tmp_path / "x.json").write_text(to_json(sample))
    return {"outcome": "waiting", "state": "Waiting", "headline": sample.headline, "report": str(tmp_path / "x.md")}


def test_each_step_fits_a_screen(facts: dict[str, Any], tmp_path: Path) -> None:
    scene = Scene(STORY, "zombie-gpu", "lab-node", tmp_path / "f", tmp_path / "p", proof=lambda: "")
    choice = report().diagnosis.plans[0].name
    shown = [
        words_of(at_a_terminal(step))
        for step in (
            lambda: screens.broken(scene),
            lambda: screens.looked(facts),
            lambda: screens.asked(facts, choice),
            lambda: screens.proved(facts | {"outcome": Outcome.FIXED.value}, "the trainer runs again"),
        )
    ]
    assert [len(step.splitlines()) for step in shown if len(step.splitlines()) > SCREEN] == []
    assert "    gpu-runbooks run zombie-gpu lab-node --mode approve\n" in shown[0]
    assert all(facts["report"] in step for step in (shown[1], shown[3]))
    for words in (*report().diagnosis.plans[0].steps[0].commands, *report().diagnosis.must_not, "Lost:", "risk: disruptive"):
        assert " ".join(words.split()) in " ".join(shown[2].split())
    assert "Seen outside the engine: the trainer runs again" in shown[3]


def test_what_is_not_asked_about_is_named(facts: dict[str, Any]) -> None:
    """And a report that cannot be read costs the details alone."""
    assert "Also offered, not in this rehearsal: clean up only." in at_a_terminal(lambda: screens.asked(facts, "another"))
    lost = words_of(at_a_terminal(lambda: screens.looked(facts | {"report": "/nowhere/x.md"})))
    assert facts["headline"].split()[0] in lost
    assert "/nowhere/x.md" in lost
