"""The evidence with its readings opened, and the short way to write a cause."""

from dataclasses import dataclass, field

from runbooks.core.reading import Known, Unknown
from runbooks.core.verdict import Cause, Certainty
from runbooks.ssh.evidence import Evidence, FarSide, GivenKey, Wire
from runbooks.ssh.limits import Limits

SURE, LIKELY, POSSIBLE = Certainty.CONFIRMED, Certainty.LIKELY, Certainty.POSSIBLE


@dataclass
class View:
    """What was read, opened, and the causes found so far."""

    e: Evidence
    limits: Limits
    causes: list[Cause] = field(default_factory=list)

    def __post_init__(self) -> None:
        e = self.e
        self.key: GivenKey | None = e.key.value if isinstance(e.key, Known) else None
        self.wire: Wire | None = e.wire.value if isinstance(e.wire, Known) else None
        self.far: FarSide | None = e.far.value if isinstance(e.far, Known) else None
        self.public = e.configured_public.value if isinstance(e.configured_public, Known) else None
        self.agent = e.agent.value if isinstance(e.agent, Known) else ()
        self.client = e.client.value if isinstance(e.client, Known) else {}
        self.where = f"{e.user}@{e.host}:{e.port}"

    def say(
        self, slug: str, certainty: Certainty, *evidence: str, about: str = "", decides: tuple[str, ...] = (),
        innocent: bool = False,
    ) -> None:  # fmt: skip
        """Adds a cause."""
        self.causes.append(
            Cause(
                slug=slug, certainty=certainty, subject=about or self.where, evidence=evidence, decides=decides,
                innocent=innocent,
            )
        )  # fmt: skip

    @property
    def unknowns(self) -> tuple[str, ...]:
        """What could not be read and why."""
        named = {
            "key": self.e.key,
            "wire": self.e.wire,
            "far side": self.e.far,
            "agent": self.e.agent,
            "ssh -G": self.e.client,
        }
        out = [f"{n}: {r.why}" for n, r in named.items() if isinstance(r, Unknown)]
        if self.far and not self.far.settings:
            out.append(f"sshd -T: {self.far.settings_say or 'no answer (it needs root)'}")
        return tuple(out)
