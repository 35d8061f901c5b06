"""Triage may not judge the corpus worse than it once did, and never gives harmful advice."""

import pytest

from tests.corpus.measure import Score, all_scores, excerpts, summary


@pytest.fixture(scope="module")
def scores() -> list[Score]:
    return all_scores()


def test_the_corpus_is_large_enough_and_a_part_is_held_apart() -> None:
    every = excerpts()
    assert len(every) >= 400
    assert 0.15 < sum(e.held for e in every) / len(every) < 0.35


@pytest.mark.parametrize(("held", "first", "two", "open_"), [(False, 0.95, 0.97, 0.95), (True, 0.85, 0.87, 0.85)])
def test_floors(scores: list[Score], held: bool, first: float, two: float, open_: float) -> None:
    found = summary([s for s in scores if s.excerpt.held is held])
    assert found["first"] >= first
    assert found["two"] >= two
    assert found["not_enough"] >= open_


def test_no_harmful_advice(scores: list[Score]) -> None:
    assert [(s.excerpt.id, s.harmful) for s in scores if s.harmful] == []


KINDS = [
    "image-pulling",
    "image-unpullable",
    "host-gpus-taken",
    "driver-too-old",
    "running-without-address",
    "key-file-unparsable",
    "key-is-public",
    "server-strict-modes",
    "too-many-keys",
    "rsa-sha2-unknown-to-server",
    "library-key-bug",
    "no-sshd",
    "collective-spin",
    "holder-in-other-namespace",
    "gpu-off-the-bus",
    "driver-stuck",
    "cpu-bound-by-design",
    "starved-by-loader",
    "run-id-collision",
    "first-start-race",
    "store-host-died",
    "store-shared",
    "killed-by-probe",
    "stale-fuse",
    "oom-container",
    "head-replaced",
    "stopped-on-purpose",
    "truncated-by-full-disk",
    "killed-mid-save",
    "resume-took-incomplete-step",
    "loader-weights-only",
    "s3-403-missing-key",
    "s3-throttled",
    "archived",
    "timeout-while-one-rank-prepares",
    "two-nics-one-subnet",
    "start-timed-out",
    "claims-without-lease",
    "worker-alive-not-working",
    "yaml-exponent-text",
    "yaml-tab",
    "cut-off",
    "jsonl-named-json",
    "gpu-held-by-others",
]


def test_every_kind_of_public_incident_is_read_right_from_its_facts(scores: list[Score]) -> None:
    assert len(KINDS) == 44
    told = {s.shown[0] for s in scores if s.first and s.shown and not s.excerpt.source.startswith("made here")}
    assert set(KINDS) - told == set()
