"""Causes that lie between a container and the role of its machine: a token that the hop limit keeps out. Pure."""

from collections.abc import Iterator, Sequence

from runbooks.checkpoint.evidence import Evidence, InstanceRole
from runbooks.core.reading import Known
from runbooks.core.verdict import Cause, Certainty
from runbooks.triage.text import says

TOKEN_NEEDED = 401  # a read without a token, where the instance wants one; elsewhere clients go on without
ON_THE_MACHINE = "the same token request on the machine that carries the container"


def answered(role: InstanceRole) -> str:
    """How the metadata service answers there, in one line."""
    if role.places:
        return f"not needed: {', '.join(role.places)}"
    if role.off:
        return "switched off by AWS_EC2_METADATA_DISABLED"
    if role.error:
        return f"not there ({role.error})"
    if role.token == 0 and role.plain == 0:
        return "accepts a connection and answers nothing"
    if role.token == 0:
        with_role = f". It gives role {role.role} without a token" if role.role else ""
        return f"answers a read without a token ({role.plain}) and never the token request{with_role}"
    if role.token != 200:
        return f"the token request is answered by {role.token}"
    return f"answers, role {role.role}" if role.role else "answers, and no role is attached to the instance"


def kept_out(role: InstanceRole) -> bool:
    """Whether only the token's answer, which alone has the hop limit as its time to live, does not arrive, and no read goes without."""
    return role.token == 0 and role.plain == TOKEN_NEEDED and not (role.off or role.error or role.places)


def engine_cause(role: InstanceRole, where: str, words: Sequence[str]) -> Cause:
    """The engine has no credentials, and the token does not arrive where it runs. On its machine nobody looked."""
    seen = (*words, f"instance metadata {answered(role)}: the hop limit of that answer is too small for a container")
    return Cause(slug="s3-hop-limit", certainty=Certainty.LIKELY, subject=where, evidence=seen, decides=(ON_THE_MACHINE,))


def node_causes(evidence: Evidence, where: str) -> Iterator[Cause]:
    """What the node's jobs lack of what the node, or the engine, has."""
    log = evidence.log.value if isinstance(evidence.log, Known) else ""
    failed = says(log, "checkpoint-fallback/s3-no-credentials") if log else False
    roles = evidence.instance_roles.value if isinstance(evidence.instance_roles, Known) else ()
    shut = [r for r in roles if kept_out(r)]
    if shut:
        yield _hop_limit(roles, shut, where, failed)
        return
    bare = isinstance(evidence.node_credentials, Known) and not evidence.node_credentials.value
    if bare and failed:
        yield _none(roles, where)


def _hop_limit(roles: Sequence[InstanceRole], shut: Sequence[InstanceRole], where: str, failed: bool) -> Cause:
    """Confirmed where the machine itself gets the token in the same look, and the job's log says that it found no credentials."""
    machine = next((r for r in roles if not r.pid), None)
    proven = machine is not None and machine.token == 200 and bool(machine.role)
    sure = Certainty.CONFIRMED if failed and proven else Certainty.LIKELY if failed else Certainty.POSSIBLE
    words = [f"on the machine itself instance metadata {answered(machine)}"] if machine and machine.pid not in [r.pid for r in shut] else []
    words += [f"{_place(r)}: no variable or file holds credentials. Instance metadata {answered(r)}" for r in shut]
    words += ["the job's log says that it found no credentials"] if failed else []
    decides = (*(() if proven else (ON_THE_MACHINE,)), *(() if failed else ("whether the job's log says that it finds no credentials",)))
    return Cause(slug="s3-hop-limit", certainty=sure, subject=where, evidence=tuple(words), decides=decides)


def _none(roles: Sequence[InstanceRole], where: str) -> Cause:
    """The log says that there are none: so it is, unless they are there now."""
    words = ("the node has no credential variable or file and its log says that it found none; the engine reads well",)
    now = [r for r in roles if r.places or (r.role and not r.off)]
    looks = tuple(f"{_place(r)}: instance metadata {answered(r)}" for r in roles)
    decides = ("whether the job finds them now: the log may be of an earlier time, or of another process",) if now else ()
    sure = Certainty.LIKELY if now else Certainty.CONFIRMED
    return Cause(slug="s3-no-credentials", certainty=sure, subject=where, evidence=(*words, *looks), decides=decides)


def _place(role: InstanceRole) -> str:
    return f"in the network of pid {role.pid} ({role.command[:60]})" if role.pid else "on the machine itself"
