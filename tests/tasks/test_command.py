"""Every end of a command becomes the right kind of reading, with its source and without secrets."""

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from runbooks.core.reading import Absent, Known, Unknown, UnknownReason
from runbooks.core.redact import Redactor
from tasks.remote.command import read
from tasks.transport.base import CommandResult, TransportError
from tasks.transport.local import LocalHost

R = Redactor(b"0123456789abcdef")
AT = datetime(2030, 1, 2, tzinfo=UTC)


class Scripted:
    """A host whose next end is given."""

    name, notes = "n1", ()

    def __init__(self, end: CommandResult | TransportError) -> None:
        self._end = end

    def run(
        self, argv: Sequence[str], *, stdin: str | None = None, timeout_s: float = 20.0, limit_bytes: int = 1 << 20
    ) -> CommandResult:
        """The end that was given."""
        if isinstance(self._end, TransportError):
            raise self._end
        return self._end

    def close(self) -> None:
        """Nothing to close."""


def done(exit_code: int = 0, out: str = "", err: str = "", truncated: bool = False) -> CommandResult:
    """An end with an exit code."""
    return CommandResult(command="x", exit=exit_code, out=out, err=err, seconds=0.1, truncated=truncated)


def look(end: CommandResult | TransportError, **options: object) -> Known[int] | Absent | Unknown:
    """Read a number."""
    return read(Scripted(end), ["tool", "--token", "canary7"], int, redactor=R, at=AT, **options)  # type: ignore[arg-type]


def test_a_value_with_its_source() -> None:
    found = look(done(out="42\n", err="PASSWORD=canary7\n"))
    assert isinstance(found, Known)
    assert found.value == 42
    assert found.source is not None
    assert found.source.command.startswith("tool --token '<secret:token:")
    assert (found.source.host, found.source.taken_at) == ("n1", AT)
    assert "canary7" not in found.model_dump_json()


def test_half_a_secret_at_the_cut_is_left_out() -> None:
    found = look(done(out="first line\nusing hf_aQ7aQ7aQ", truncated=True))
    assert isinstance(found, Unknown)
    assert found.source is not None
    assert found.source.excerpt == "first line\nusing …"


@pytest.mark.parametrize("why",
    [UnknownReason.UNREACHABLE, UnknownReason.DENIED, UnknownReason.TIMED_OUT, UnknownReason.TOOL_MISSING, UnknownReason.FAILED])
def test_transport_reasons_pass_through(why: UnknownReason) -> None:
    found = look(TransportError(why, "token=canary7", "x"))
    assert isinstance(found, Unknown)
    assert found.reason is why
    assert "canary7" not in found.detail


@pytest.mark.parametrize(
    ("end", "why"),
    [
        (done(out="many"), UnknownReason.UNPARSABLE),
        (done(1, err="boom"), UnknownReason.FAILED),
        (done(1, err="ls: cannot open '/x': Permission denied"), UnknownReason.DENIED),
        (done(126), UnknownReason.DENIED),
        (done(out="1", truncated=True), UnknownReason.UNPARSABLE),
    ],
)
def test_ends_that_are_no_answer(end: CommandResult, why: UnknownReason) -> None:
    found = look(end)
    assert isinstance(found, Unknown)
    assert found.reason is why


def test_proofs_of_absence() -> None:
    gone = TransportError(UnknownReason.TOOL_MISSING, "not there")
    assert isinstance(look(gone, absent_if_missing="no docker command"), Absent)
    found = look(done(9, err="No devices were found"), absent_if=lambda d: "no GPU" if "No devices" in d.err else "")
    assert isinstance(found, Absent)
    assert found.proof == "no GPU"


def test_on_this_machine_with_a_long_output() -> None:
    found = read(LocalHost(), ["seq", "2000"], lambda out: len(out.split()), redactor=R, at=AT)
    assert isinstance(found, Known)
    assert found.value == 2000
    assert found.source is not None
    assert len(found.source.excerpt) < 2200
