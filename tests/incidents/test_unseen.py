"""Incidents of the public that nobody here had seen (unseen.yaml): each with its source, and evidence that its readers or models take."""

import copy
from pathlib import Path
from typing import Any

import pytest

from tests.incidents.unseen import ALL, read


@pytest.mark.parametrize("case", [pytest.param(x, id=x["id"]) for x in ALL])
def test_its_evidence_can_be_read(case: dict[str, Any], tmp_path: Path) -> None:
    assert case["source"].startswith("https://")
    assert read(copy.deepcopy(case), tmp_path)
