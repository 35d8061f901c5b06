"""The evidence with its readings opened."""

import shlex

from runbooks.core.judgment import Judgment
from runbooks.core.reading import Known
from runbooks.ssh.evidence import Evidence, FarSide, GivenKey, Wire
from runbooks.ssh.limits import Limits


class SshView(Judgment):
    """What was read, opened, and the causes found so far."""

    def __init__(self, e: Evidence, limits: Limits) -> None:
        super().__init__("ssh-auth-failure", f"{e.user}@{e.host}:{e.port}")
        self.e, self.limits = e, limits
        self.key: GivenKey | None = e.key.value if isinstance(e.key, Known) else None
        self.wire: Wire | None = e.wire.value if isinstance(e.wire, Known) else None
        self.far: FarSide | None = e.far.value if isinstance(e.far, Known) else None
        self.public = e.configured_public.value if isinstance(e.configured_public, Known) else None
        self.agent = e.agent.value if isinstance(e.agent, Known) else ()
        self.client = e.client.value if isinstance(e.client, Known) else {}

    @property
    def typed(self) -> str:
        """The node as `ssh` takes it on its command line; what names it elsewhere (`user@host:port`) ssh takes for a host's name."""
        return f"-p {self.e.port} {shlex.quote(f'{self.e.user}@{self.e.host}')}"

    @property
    def open(self) -> tuple[str, ...]:
        """What a reading that was made left open."""
        settings = not self.far or self.far.settings
        return () if settings or self.far is None else (f"sshd -T: {self.far.settings_say or 'no answer (it needs root)'}",)
