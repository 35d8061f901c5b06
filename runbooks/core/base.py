"""The frozen pydantic base of everything that passes between rooms, and the numbers that a file may give."""

import re
from typing import Annotated, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PrivateAttr

from runbooks.core.clean import one_line

Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Size = Annotated[int, Field(ge=0)]
Count = Annotated[int, Field(ge=1)]
ProcessId = Annotated[int, Field(ge=1)]
"""The number of one process. 0 is none: to the kernel it means many, and programs give it for what they do not see."""
MaybeProcessId = Annotated[ProcessId | None, BeforeValidator(lambda pid: pid or None)]
"""The same where a program may give 0, which is taken for None: not told."""
Line = Annotated[str, AfterValidator(lambda text: one_line(text))]
"""A field that is one clean line whatever it is given."""


def _regex(text: str) -> str:
    try:
        re.compile(text)
    except (re.error, OverflowError) as e:
        raise ValueError(f"not a regular expression: {e}") from e
    except RecursionError as e:
        raise ValueError("not a regular expression: nested too deep") from e
    return text


Regex = Annotated[str, AfterValidator(_regex)]
"""A field that Python's `re` takes as a pattern."""


class Frozen(BaseModel):
    """Immutable, compared by value, and strict about names: an unknown field is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=False)


class FromFile(Frozen):
    """The whole of a configuration file, which knows where it was read."""

    _file: str = PrivateAttr("")

    @property
    def file(self) -> str:
        """The file's path; "" where there is none."""
        return self._file

    def read_from(self, path: str) -> Self:
        """The same, read from the file `path`."""
        found = self.model_copy()
        found._file = path
        return found
