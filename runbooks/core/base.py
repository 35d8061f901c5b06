"""The frozen pydantic base of everything that passes between rooms."""

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """Immutable, compared by value, and strict about names: an unknown field is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=False)
