"""Words for the same thing have one form; misspelt ones are put right; words of no meaning here are left out."""

import pytest

from runbooks.triage.likeness import Index
from runbooks.triage.load import library
from runbooks.triage.sameword import tokens


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("cards", "GPU"),
        ("ckpt", "checkpoints"),
        ("k8s", "Kubernetes"),
        ("ran out of RAM", "OOM"),
        ("rdzv timed out", "rendezvous timeout"),
        ("pubkey", "keys"),
        ("doesn't answer", "unresponsive"),
        ("perms", "permissions"),
        ("uploads failed", "pushing fails"),
    ],
)
def test_one_form(one: str, other: str) -> None:
    assert tokens(one) == tokens(other) != []


@pytest.mark.parametrize(
    ("one", "other"), [("card", "disk"), ("starting", "stopping"), ("discard", "card"), ("hostname", "box")]
)
def test_what_differs_stays_different(one: str, other: str) -> None:
    assert tokens(one) != tokens(other)


def test_names_of_errors_and_variables_are_taken_apart_and_numbers_stay() -> None:
    assert tokens("ModuleNotFoundError") == ["modul", "=notfound", "=fail"]
    assert "137" in tokens("exited with 137, the one")
    assert tokens("the one of it") == []


def test_a_misspelt_word_that_no_cause_has_is_the_one_that_they_have() -> None:
    index = Index(library().causes)
    assert index.asked("attension checkpoitn") & index.asked("checkpoint")
    assert index.asked("rayelt") == index.asked("raylet")
    assert index.asked("zqxjkv") == {"zqxjkv"}


def test_the_index_is_the_same_from_the_cache_and_without(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made, kept = Index(library().causes), Index(library().causes)
    assert (made.found, made.long) == (kept.found, kept.long)
