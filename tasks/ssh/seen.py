"""A log-in looked at and judged in one, for subjects that are not about SSH: they get it with their Context."""

from runbooks.core.fleet import Node
from runbooks.core.knowledge import load_runbook
from runbooks.core.log_in import LogInSeen
from runbooks.core.reading import Known
from runbooks.ssh.diagnose import Limits, diagnose
from runbooks.ssh.evidence import HostKeyFact, Stage
from tasks.context import Context
from tasks.ssh.attempts import memory_of
from tasks.ssh.read import gather_log_in


class LogInCheck:
    """The stages of ssh-auth-failure by its default limits, within the run's budget of attempts."""

    def seen(self, context: Context, node: Node) -> LogInSeen:
        """How far the log-in to `node` gets. Raises TransportError, ValueError, OSError."""
        evidence = gather_log_in(context, node)
        found = diagnose(evidence, Limits.model_validate(load_runbook("ssh-auth-failure").limit_values()))
        wire = evidence.wire.value if isinstance(evidence.wire, Known) else None
        cause = found.causes[0] if found.causes and (wire is None or wire.stage is not Stage.DONE) else None
        key = wire.host_key if wire else None
        return LogInSeen(
            stage=str(wire.stage) if wire else "", cause=cause.slug if cause else "", certainty=str(cause.certainty) if cause else "",
            headline=found.headline, unknown_key=key.public if key and key.fact is HostKeyFact.UNKNOWN else "",
            changed=bool(key and key.fact is HostKeyFact.CHANGED),
        )  # fmt: skip

    def changed(self, context: Context) -> None:
        """Something was changed on the other side: the next look asks afresh."""
        memory_of(context).changed()
