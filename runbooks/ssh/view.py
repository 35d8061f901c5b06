"""The evidence with its readings opened."""

import shlex

from runbooks.core.judgment import Judgment
from runbooks.core.reading import Known
from runbooks.parsers.ssh_text import LogLine, SshdMessage
from runbooks.ssh.evidence import Evidence, FarSide, GivenKey, Wire
from runbooks.ssh.limits import Limits

OF_A_USER = (SshdMessage.LOCKED, SshdMessage.NO_SHELL, SshdMessage.NO_USER, SshdMessage.NOT_ALLOWED, SshdMessage.FROM,
    SshdMessage.PAM_ACCOUNT)


def quote(line: LogLine | None) -> tuple[str, ...]:
    """What sshd itself said."""
    return (f"sshd says: {line.line}",) if line else ()


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

    def told(self, *kinds: SshdMessage) -> LogLine | None:
        """sshd's line of one of these kinds; of those that name a user, about this one."""
        lines = self.far.log if self.far else ()
        return next((x for x in lines if x.said in kinds and (x.said not in OF_A_USER or x.about == self.e.user)), None)
