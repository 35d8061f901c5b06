"""What a channel gets, and what became of it."""

from pydantic import InstanceOf

from runbooks.core.base import Frozen
from runbooks.core.outcome import Severity
from runbooks.core.show import Chat


class Outgoing(Frozen):
    """What a channel gets."""

    incident: str
    severity: Severity
    title: InstanceOf[Chat]
    body: InstanceOf[Chat]
    closing: bool = False  # the incident is over
    link: str = ""  # the best page about it
    earlier: str = ""  # what the channel called the incident's first message, if it can be answered there


class Sent(Frozen):
    """What became of it. `ref` names the message in that channel, for a reply."""

    ok: bool
    said: str
    ref: str = ""
