"""How the watch was told to run."""

from dataclasses import dataclass, field

from runbooks.container.watching import Patience
from runbooks.core.policy import Mode


@dataclass(frozen=True)
class Settings:
    """How the watch was told to run."""

    mode: Mode
    fleet: str | None
    policy: str | None
    out: str | None
    patience: Patience = field(default_factory=Patience)
