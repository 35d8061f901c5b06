"""A number is one process only with its machine, its PID namespace and its time."""

import os

import pytest

from runbooks.core.same_process import MACHINE, Numbered, Same, same_process
from tasks.remote.probes.proc import FIRST_PID_NAMESPACE, namespace, own_pid, stat

NAMED = Numbered(pid=4242, host="boot-1", namespace=MACHINE, seen_s=1000.0)
THERE = Numbered(pid=4242, host="boot-1", namespace=MACHINE, began_s=900.0)
INSIDE = 4026532500


def test_the_same() -> None:
    assert same_process(NAMED, THERE, 2.0) is Same.YES


@pytest.mark.parametrize(
    "change",
    [
        {"pid": 4243},
        {"host": "boot-2"},  # the same number on another machine
        {"namespace": INSIDE},  # in a container of this one
        {"began_s": 1003.0},  # given out again
    ],
)
def test_a_twin_is_another(change: dict[str, object]) -> None:
    other = THERE.model_copy(update=change)
    assert same_process(NAMED, other, 2.0) is Same.NO
    assert same_process(other, NAMED, 2.0) is Same.NO


@pytest.mark.parametrize("lost", ["host", "namespace", "began_s"])
def test_what_is_not_told_is_neither(lost: str) -> None:
    """And what is told still rules out."""
    other = THERE.model_copy(update={lost: "" if lost == "host" else None})
    assert same_process(NAMED, other, 2.0) is Same.UNKNOWN
    for change in ({"pid": 1}, {"host": "boot-2"}, {"namespace": INSIDE}):
        if lost not in change:
            assert same_process(NAMED, other.model_copy(update=change), 2.0) is Same.NO


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ({"began_s": 900.0}, {"began_s": 901.0}, Same.YES),
        ({"began_s": 900.0}, {"began_s": 903.0}, Same.NO),
        ({"ended_s": 900.0}, {"ended_s": 898.0}, Same.YES),
        ({"ended_s": 900.0}, {"ended_s": 960.0}, Same.NO),
        ({"began_s": 900.0}, {"ended_s": 800.0}, Same.NO),
        ({"seen_s": 900.0}, {"ended_s": 800.0}, Same.NO),
        ({"seen_s": 900.0}, {"ended_s": 1000.0}, Same.YES),
        ({"seen_s": 900.0}, {"seen_s": 100.0}, Same.UNKNOWN),  # it may have ended and begun between them
    ],
)
def test_moments(one: dict[str, float], other: dict[str, float], same: Same) -> None:
    place = {"pid": 7, "host": "h", "namespace": MACHINE}
    assert same_process(Numbered(**place | one), Numbered(**place | other), 2.0) is same
    assert same_process(Numbered(**place | other), Numbered(**place | one), 2.0) is same


def test_the_probe_reads_the_same_namespace() -> None:
    assert FIRST_PID_NAMESPACE == MACHINE
    assert namespace(os.getpid()) is not None
    assert own_pid(os.getpid()) == os.getpid()
    assert namespace(2**22 + 1) is None
    assert own_pid(2**22 + 1) == 0
    assert stat(2**22 + 1) is None
