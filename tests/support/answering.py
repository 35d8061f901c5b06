"""A node that answers each command as a situation says, and what a runbook reads from it."""

import shlex
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel

from flows.specs import load_spec
from runbooks.core.fleet import Fleet, Node
from runbooks.core.knowledge import load_runbook
from runbooks.core.reading import UnknownReason
from tasks.context import Context
from tasks.transport.base import CommandResult, TransportError

AT = datetime(2026, 5, 1, 12, tzinfo=UTC)
NODE = "node-a"


class AnsweringHost:
    """Command line -> what it printed; or {exit, out, err}; or {lost: reason} where no answer came. Any other command is an error."""

    name, notes = NODE, ()

    def __init__(self, answers: Mapping[str, Any]) -> None:
        self.answers, self.asked = answers, set[str]()

    def run(
        self, argv: Sequence[str], *, stdin: str | None = None, timeout_s: float = 20.0, limit_bytes: int = 1 << 20
    ) -> CommandResult:
        """The answer. Raises TransportError for a lost one, AssertionError where the situation says nothing of the command."""
        command = shlex.join(argv)
        assert command in self.answers, f"the situation does not say what `{command}` answers"
        self.asked.add(command)
        answer = self.answers[command]
        given = {"out": answer} if isinstance(answer, str) else dict(answer)
        if "lost" in given:
            raise TransportError(UnknownReason(given["lost"]), "lost in this situation", command)
        return CommandResult(command=command, **({"exit": 0, "out": "", "err": "", "seconds": 0.1} | given))

    def close(self) -> None:
        """Nothing is open."""


def evidence_of(slug: str, answers: Mapping[str, Any], over: Mapping[str, Any]) -> BaseModel:
    """What the runbook reads from a node that answers so, with these limits changed. Each answer must have been asked for."""
    host = AnsweringHost(answers)
    fleet = Fleet(nodes=(Node(name=NODE, local=True),))
    limits = load_runbook(slug).limit_values(dict(over))
    spec = load_spec(slug)
    evidence: BaseModel = spec.gather(
        Context(fleet=fleet, target=NODE, open_host=lambda _: host, limits=limits, now=lambda: AT, sleep=lambda _: None)
    )
    assert host.asked == set(answers), f"no longer asked: {set(answers) - host.asked}"
    return spec.evidence.model_validate(evidence)
