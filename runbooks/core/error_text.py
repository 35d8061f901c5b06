"""What an exception says, as one text that can be redacted. Nothing of it is kept but words."""

import traceback
from collections.abc import Iterator

from pydantic import ValidationError

_MOST = 20  # errors of one group or model that are said


def error_text(error: BaseException) -> str:
    """Kind and message. Of pydantic's errors only field and fault: they quote their input cut in the middle, where half
    a token is no longer known for one. Members of a group and notes are said too."""
    return "\n".join(_lines(error))


def _lines(error: BaseException) -> Iterator[str]:
    if isinstance(error, ValidationError):
        found = error.errors(include_url=False, include_input=False, include_context=False)
        said = "; ".join(f"{'.'.join(map(str, e['loc'])) or '(whole)'}: {e['msg']}" for e in found[:_MOST])
        yield f"ValidationError: {error.error_count()} error(s) in {error.title}: {said}"
    else:
        yield from _first_lines(error)
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions[:_MOST]:
            yield from _lines(inner)
    yield from (str(note) for note in getattr(error, "__notes__", ()))


def _first_lines(error: BaseException) -> Iterator[str]:
    """As Python says it, without the notes."""
    bare = traceback.TracebackException(type(error), error, None, compact=True)
    bare.__notes__ = None
    yield "".join(bare.format_exception_only()).strip()
