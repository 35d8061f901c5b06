"""The base of what kinds of action are told: typed, nothing missing, nothing more. Pure."""

from typing import Annotated, Any

from pydantic import ConfigDict, Field, StrictBool, StrictFloat, StrictInt

from runbooks.core.base import Frozen

Whole = StrictInt
Flag = StrictBool
Seconds = StrictInt | StrictFloat
Pid = Annotated[StrictInt, Field(ge=1)]  # 0 and -1 mean many processes to the kernel


class Args(Frozen):
    """The arguments of one kind of action: identities and commands, never a reading that moves and never a secret."""

    model_config = ConfigDict(populate_by_name=True)

    def plain(self, *names: str) -> dict[str, Any]:
        """As JSON data, as a step stores it and a probe is sent it: what was given of these names, or of all."""
        given = self.model_dump(mode="json", by_alias=True, exclude_unset=True)
        return {name: given[name] for name in names} if names else given


class ProcessArgs(Args):
    """A process as it was judged; user and program are compared again."""

    pid: Pid
    start_ticks: Whole
    command: str
    uid: Whole
