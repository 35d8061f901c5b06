"""A reading that was made before the look began is no answer, wherever it stands in the evidence."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from runbooks.core.anew import read_anew, why_old
from runbooks.core.base import Frozen
from runbooks.core.reading import NOT_RECORDED, Absent, Known, Reading, Source, Unknown, UnknownReason

BEGAN = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
NEW, OLD = (Source(command="c", host="h", taken_at=BEGAN + timedelta(seconds=s)) for s in (1, -1))


class Inner(Frozen):
    size: Reading[int] = NOT_RECORDED


class Whole(Frozen):
    plain: int = 7
    one: Reading[Inner] = NOT_RECORDED
    many: tuple[Inner, ...] = ()
    named: dict[str, Reading[int]] = {}


def known(value: Any, source: Source | None = NEW) -> Any:
    return Known(value=value, source=source)


def test_what_was_read_anew_stays_the_same_object() -> None:
    for whole in (Whole(), Whole(one=known(Inner(size=known(3))), many=(Inner(size=known(4, None)),), named={"a": known(5)})):
        assert read_anew(whole, BEGAN) is whole


@pytest.mark.parametrize(
    "old", [known(3, OLD), Absent(proof="none", source=OLD)], ids=["a value", "a proof that there is none"]
)
def test_an_old_reading_is_unknown_wherever_it_stands(old: Any) -> None:
    many = (Inner(size=known(4)), Inner(size=old))
    found = read_anew(Whole(one=known(Inner(size=old)), many=many, named={"a": old, "b": known(5)}), BEGAN)
    assert isinstance(found.one, Known)
    assert isinstance(found.many[0].size, Known)
    assert isinstance(found.named["b"], Known)
    for lost in (found.one.value.size, found.many[1].size, found.named["a"]):
        assert isinstance(lost, Unknown)
        assert lost.reason is UnknownReason.FAILED
        assert lost.detail == "not read anew: the answer is of 2026-03-04 05:06:06 UTC, before this look began"
        assert lost.source == OLD


def test_a_time_without_a_zone_is_utc_and_what_is_no_time_is_not_old() -> None:
    assert why_old((BEGAN - timedelta(seconds=1)).replace(tzinfo=None), BEGAN)
    assert why_old(BEGAN, BEGAN) == why_old(None, BEGAN) == why_old("2020", BEGAN) == ""
