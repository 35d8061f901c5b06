"""The words around the causes: headline, what must not be done, what a person does now, commands by hand."""

from runbooks.core.rules import book
from runbooks.core.verdict import Certainty, Finding, State
from runbooks.ssh.evidence import Auth, Stage
from runbooks.ssh.view import View

ALWAYS = (
    "turn StrictHostKeyChecking off: it hides the one sign of an interception",
    "turn password log-in on, or chmod -R over a home, to get in at all",
    "retry in a loop: servers punish failed log-ins by address, and the ban then looks like the fault",
)
BY_SLUG = {
    "host-key-changed": "do not delete known_hosts, and accept nothing before the new fingerprint was read on the machine itself",
    "host-key-of-another-machine": "do not take the other machine for this one: its jobs are not yours",
    "key-file-unparsable": "do not rotate the key pair or touch authorized_keys: the key is whole, only its file is not",
    "key-truncated": "do not print the key to look at it; get it again from where it is kept",
    "key-is-public": "do not copy a private key from another machine to fill the gap",
    "server-strict-modes": "do not turn StrictModes off and do not replace keys: the key is right, the server refuses to read it",
    "home-of-another-user": "do not replace keys: find what changes the owner (a container with the home mounted), or it comes back",
    "too-many-keys": "do not raise MaxAuthTries or empty the agent: name the one key (IdentitiesOnly)",
    "key-not-registered": "do not copy private keys about: the public half is what the server needs",
    "publickey-denied": "do not rotate keys while it is not known whether the key or the server is wrong",
    "banner-closed": "do not try again at once: the address is probably being punished already",
    "address-penalised": "do not try again before the penalty is over, and do not rotate keys: each try begins it anew",
    "too-many-unauthenticated": "do not retry in a loop: it is what fills the places",
    "authorized-keys-elsewhere": "do not change modes or the key pair: the key is right and stands where this sshd does not look",
    "private-half-missing": "do not generate a new pair before the old private key was looked for",
    "bad-key-rollout": "do not repair node by node: it is one change that went wrong, and it is undone in one place",
    "no-sshd": "do not rotate keys: no key was ever asked for",
    "unreachable": "do not rotate keys: no key was ever asked for",
}


def must_not(v: View) -> tuple[str, ...]:
    """Reasons that apply here first: in words of their own, else as runbook.yaml has them."""
    stand = [c.slug for c in v.causes if c.certainty is not Certainty.RULED_OUT]
    mine = [line for slug in stand for line in ((BY_SLUG[slug],) if slug in BY_SLUG else book("ssh-auth-failure").causes[slug].must_not)]
    return tuple(dict.fromkeys((*mine, *ALWAYS)))


def verdict_on_key(v: View) -> str:
    """ "Key is right, server refuses" or "key is wrong", where that can be told."""
    w = v.wire
    if w is None or w.auth is not Auth.REFUSED or v.far is None:
        return ""
    there = any(k.fingerprint in w.offered for f in v.far.files if f.by_sshd for k in f.lines)
    return "the key is right and the server refuses it" if there else "the server does not know this key"


def headline(v: View, state: State) -> str:
    """One line."""
    w = v.wire
    if state is State.HEALTHY:
        return f"{v.where} lets this key in and a command answers"
    sure = [c for c in v.causes if c.certainty in (Certainty.CONFIRMED, Certainty.LIKELY)] or v.causes
    if not sure:
        return f"{v.where}: cannot tell: {'; '.join(v.unknowns) or 'nothing was read'}"
    stage = f" (stops at: {w.stage})" if w and w.stage is not Stage.DONE else ""
    key = verdict_on_key(v)
    return f"{v.where}{stage}: {sure[0].slug}: {sure[0].evidence[0]}" + (f"; {key}" if key else "")


def symptom(v: View) -> str:
    """What was seen."""
    w = v.wire
    if w is None:
        return f"the connection to {v.where} was not walked"
    if w.stage is Stage.DONE:
        return "log-in and command work"
    asked = ", the answer of this run's one attempt" if w.remembered else ""
    return f"the connection stops at stage {w.stage}{asked}; {w.connections} connections were made"


def do_now(v: View, state: State, withheld: tuple[str, ...]) -> tuple[str, ...]:
    """For a person."""
    out = list(withheld)
    for c in v.causes:
        out += [f"{c.slug}: look at {d}" for d in c.decides if c.certainty is not Certainty.CONFIRMED]
    if any(c.slug in ("host-key-changed", "host-key-revoked") for c in v.causes):
        out.insert(0, "treat it as a possible interception until the machine's owner confirms the new fingerprint")
    if state is State.CANNOT_TELL and not out:
        out.append("give the node a second_way in the fleet file, so that the server's side can be read")
    return tuple(dict.fromkeys(out))


def findings(v: View) -> tuple[Finding, ...]:
    """One per cause, in the seed's fields."""
    rank = {Certainty.CONFIRMED: "HIGH", Certainty.LIKELY: "MEDIUM"}
    return tuple(
        Finding(priority=rank.get(c.certainty, "LOW"), category="SSH", issue=f"{c.slug}: {c.evidence[0]}",
                action=c.decides[0] if c.decides else book("ssh-auth-failure").causes[c.slug].remedy)
        for c in v.causes
    )  # fmt: skip


def by_hand(v: View) -> tuple[str, ...]:
    """The same stages, by hand, in order."""
    e, key = v.e, v.key
    file = key.place if key and key.place else "KEY"
    return (
        f"ssh-keygen -l -f {file}",
        f"getent hosts {e.host}; timeout 5 bash -c '</dev/tcp/{e.host}/{e.port}' && echo open",
        f"ssh-keygen -F '[{e.host}]:{e.port}'",
        f"ssh -v -F none -o IdentitiesOnly=yes -o BatchMode=yes -i {file} -p {e.port} {e.user}@{e.host} true",
        f"sshd -T -C user={e.user},host=x,addr=127.0.0.1   # on the server",
    )
