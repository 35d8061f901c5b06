"""The nightly reads the training data that the fleet file names, within its bytes and time, and names what it left out."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from flows.engine.observe import context_of
from flows.specs import load_spec
from flows.sweep.sweeping import Sweep, check_target
from runbooks.core.data_config import DataSet
from runbooks.core.fleet import Fleet, Node
from runbooks.core.nightly import Result
from runbooks.core.outcome import Outcome
from runbooks.core.reading import Known, Unknown, UnknownReason
from tasks.transport.open import HostPool

ROW = json.dumps({"text": "a step"}).encode() + b"\n"


def fleet(*data: DataSet, **limits: Any) -> Fleet:
    nodes = (Node(name="here", local=True), Node(name="there", local=True))
    return Fleet(name="f", nodes=nodes, data=data, limits={"data-check": limits} if limits else {})


def night(folder: Path, given: Fleet) -> list[Result]:
    sweep = Sweep(fleet=given, slugs=("data-check",), folder=folder / "reports", run_id="r1", trigger="nightly")
    return check_target.fn(sweep, "here", "data-check")[0]


def file(folder: Path, name: str, content: bytes) -> str:
    (folder / name).write_bytes(content)
    return str(folder / name)


def test_each_data_set_of_the_node_is_judged(tmp_path: Path) -> None:
    whole, cut = file(tmp_path, "whole.jsonl", ROW * 9), file(tmp_path, "cut.jsonl", ROW * 9 + ROW[:-7])
    here = (DataSet(node="here", files=(whole,), text_key="text"), DataSet(node="here", files=(cut,)))
    given = fleet(*here, DataSet(node="there", files=(cut,)))
    applies = load_spec("data-check").nightly
    assert applies is not None
    assert [applies(given, n) for n in given.nodes] == [True, True]
    assert applies(fleet(), given.nodes[0]) is False
    assert [(r.outcome, r.causes) for r in night(tmp_path, given)] == [(Outcome.HEALTHY, ()), (Outcome.UNHEALTHY, ("cut-off",))]


def test_more_bytes_than_a_night_has_are_named_and_not_called_whole(tmp_path: Path) -> None:
    small, large = file(tmp_path, "small.jsonl", ROW * 9), file(tmp_path, "large.jsonl", ROW * 900)
    (result,) = night(tmp_path, fleet(DataSet(node="here", files=(large, small)), sweep_bytes=len(ROW) * 500))
    assert result.outcome is Outcome.CANNOT_TELL
    told = result.unknowns[0]
    assert large in told
    assert "has 16.7 KiB, with 9.3 KiB left of what a sweep reads" in told
    assert f"gpu-runbooks run data-check here --option data={large}" in told
    by_hand = fleet(DataSet(node="here", files=(large, small)), sweep_bytes=len(ROW) * 500)
    spec = load_spec("data-check")
    with HostPool() as pool:
        context = context_of(spec, by_hand, "here", tmp_path / "reports", pool)
        (options,) = spec.parts(context)
        found = spec.gather(replace(context, options=options))
    assert all(isinstance(r, Known) for r in found.files.values())


def test_a_token_index_counts_with_its_data(tmp_path: Path) -> None:
    file(tmp_path, "tokens.idx", b"x" * 10), file(tmp_path, "tokens.bin", b"x" * 4000)
    (result,) = night(tmp_path, fleet(DataSet(node="here", files=(str(tmp_path / "tokens"),)), sweep_bytes=1000))
    assert "has 3.9 KiB" in result.unknowns[0]


def test_no_further_file_is_begun_when_the_time_is_over(tmp_path: Path) -> None:
    files = tuple(file(tmp_path, f"{n}.jsonl", ROW) for n in "ab")
    given, spec = fleet(DataSet(node="here", files=files), sweep_seconds=600), load_spec("data-check")
    at = iter(datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=s) for s in (0, 0, 0, 0, 599.5, 599.5, 599.5))
    with HostPool() as pool:
        context = context_of(spec, given, "here", tmp_path / "reports", pool, sweep="nightly")
        found = spec.gather(replace(context, options=spec.parts(context)[0], now=lambda: next(at)))
    first, second = found.files.values()
    assert isinstance(first, Known)
    assert isinstance(second, Unknown)
    assert (second.reason, "the time that a sweep has was over" in second.detail) == (UnknownReason.NOT_ASKED, True)


@pytest.mark.parametrize("path", ["train.jsonl", "/data/a,b.jsonl", ""])
def test_a_path_that_could_not_be_named_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="pattern"):
        DataSet(node="here", files=(path,))


def test_data_of_an_unknown_node_is_refused() -> None:
    with pytest.raises(ValueError, match="data /d: no node nowhere; there are: here, there"):
        fleet(DataSet(node="nowhere", files=("/d",)))
