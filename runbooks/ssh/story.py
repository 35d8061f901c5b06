"""The words around the causes: headline, what must not be done, what a person does now, commands by hand."""

from runbooks.core.headline import of_cause
from runbooks.core.judgment import credible
from runbooks.core.rules import book
from runbooks.core.unread import missing
from runbooks.core.verdict import State
from runbooks.ssh.evidence import Auth, Stage
from runbooks.ssh.view import SshView

ALWAYS = (
    "turn StrictHostKeyChecking off: it hides the one sign of an interception",
    "turn password log-in on, or chmod -R over a home, to get in at all",
    "retry in a loop: servers punish failed log-ins by address, and the ban then looks like the fault",
)


def verdict_on_key(v: SshView) -> str:
    """ "Key is right, server refuses" or "key is wrong", where that can be told."""
    w = v.wire
    if w is None or w.auth is not Auth.REFUSED or v.far is None:
        return ""
    there = any(k.fingerprint in w.offered for f in v.far.files if f.by_sshd for k in f.lines)
    return "the key is right and the server refuses it" if there else "the server does not know this key"


def headline(v: SshView, state: State) -> str:
    """One line."""
    if state is State.HEALTHY:
        return f"{v.subject} lets this key in and a command answers"
    sure = credible(v.causes) or v.causes
    if not sure:
        return f"{v.subject}: cannot tell: {'; '.join((*missing(v.e), *v.open)) or 'nothing was read'}"
    return of_cause(book(v.slug), sure[0], v.subject)


def symptom(v: SshView) -> str:
    """What was seen."""
    w = v.wire
    if w is None:
        return f"the connection to {v.subject} was not walked"
    if w.stage is Stage.DONE:
        return "log-in and command work"
    asked = ", the answer of this run's one attempt" if w.remembered else ""
    key = verdict_on_key(v)
    return f"the connection stops at stage {w.stage}{asked}; {w.connections} connections were made" + (f"; {key}" if key else "")


def before(v: SshView, withheld: tuple[str, ...]) -> tuple[str, ...]:
    """What a person does before anything else."""
    changed = any(c.slug in ("host-key-changed", "host-key-revoked") for c in v.causes)
    first = ("treat it as a possible interception until the machine's owner confirms the new fingerprint",) if changed else ()
    return (*first, *withheld)


def after(v: SshView, state: State, withheld: tuple[str, ...]) -> tuple[str, ...]:
    """What is left where nothing else says how to go on."""
    if state is not State.CANNOT_TELL or withheld or any(c.decides for c in v.causes):
        return ()
    return ("give the node a second_way in the fleet file, so that the server's side can be read",)


def by_hand(v: SshView) -> tuple[str, ...]:
    """The same stages, by hand, in order."""
    e, key = v.e, v.key
    file = key.place if key and key.place else "KEY"
    return (
        f"ssh-keygen -l -f {file}",
        f"getent hosts {e.host}; timeout 5 bash -c '</dev/tcp/{e.host}/{e.port}' && echo open",
        f"ssh-keygen -F '[{e.host}]:{e.port}'",
        f"ssh -v -F none -o IdentitiesOnly=yes -o BatchMode=yes -i {file} {v.typed} true",
        f"sshd -T -C user={e.user},host=x,addr=127.0.0.1   # on the server",
    )
