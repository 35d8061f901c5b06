"""The fleet file's training data: what the nightly reads."""

from typing import Annotated

from pydantic import Field

from runbooks.core.base import Frozen

DataPath = Annotated[str, Field(pattern=r"^/[^,\n]*$")]


class DataSet(Frozen):
    """Training data files on one node: JSONL, or token indexes by their stem."""

    node: str
    files: tuple[DataPath, ...] = Field(min_length=1, max_length=64)
    text_key: str = ""  # the field of each JSONL row that holds the text; empty: any
    vocabulary: int | None = Field(default=None, ge=1, lt=10**9)  # token ids at or above it are faults

    @property
    def options(self) -> dict[str, str]:
        """Options of a data-check of these files."""
        given = {"data": ",".join(self.files), "text_key": self.text_key, "vocabulary": str(self.vocabulary or "")}
        return {name: value for name, value in given.items() if value}
