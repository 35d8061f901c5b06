"""Counts one run's log-in attempts, so that a diagnosis never becomes the cause of a ban. In memory, per run."""

from dataclasses import dataclass, field

from runbooks.core.fleet import Jump
from runbooks.parsers.ssh_text import LogLine
from runbooks.ssh.evidence import HostKeyFact, Wire
from tasks.context import Context
from tasks.transport.connection import SshConnection

CONNECTIONS = 6  # unauthenticated connections per address and run


@dataclass
class Memory:
    """What this run has already asked of which address."""

    connections: dict[str, int] = field(default_factory=dict)
    attempts: dict[str, Wire] = field(default_factory=dict)  # the answer to a key, by user, address and fingerprint
    by_ssh: dict[str, tuple[HostKeyFact, str]] = field(default_factory=dict)  # what `ssh` said of a host certificate
    log: dict[str, tuple[tuple[LogLine, ...], tuple[str, ...]]] = field(default_factory=dict)  # known kinds, and other lines

    jumps: dict[str, SshConnection] = field(default_factory=dict)  # one connection and one log-in per jump host
    mended: bool = False  # something was changed: what other connections of the run heard before counts no longer

    def jump_to(self, jump: Jump, timeout_s: float) -> SshConnection:
        """The run's connection to that jump host: opened once, its refusal remembered. Ends with the process."""
        key = jump.model_dump_json()
        if key not in self.jumps:
            self.jumps[key] = SshConnection(jump, timeout_s)
        return self.jumps[key]

    def may_connect(self, address: str) -> bool:
        """Takes one connection of the address's budget. False: used up."""
        used = self.connections.get(address, 0)
        if used >= CONNECTIONS:
            return False
        self.connections[address] = used + 1
        return True

    def changed(self) -> None:
        """Something was changed: the next look asks afresh, once."""
        self.mended = True
        self.attempts.clear()
        self.by_ssh.clear()
        self.log.clear()
        for jump in self.jumps.values():
            jump.close()
        self.jumps.clear()
        self.connections.clear()


def memory_of(context: Context) -> Memory:
    """The run's memory, kept with the run's own options."""
    memory = context.options.setdefault("ssh_memory", Memory())
    assert isinstance(memory, Memory)  # noqa: S101
    return memory
