"""Judges etcd itself: down, without v2, unreachable from some node, full, slow."""

from runbooks.core.reading import Known, Unknown, UnknownReason
from runbooks.core.verdict import Cause
from runbooks.parsers.address import address_of
from runbooks.rendezvous.causes import confirmed, likely, possible
from runbooks.rendezvous.evidence import EtcdFacts, Evidence, NodeFacts, Reachability
from runbooks.rendezvous.life import known_nodes
from runbooks.triage.text import says


def etcd_causes(evidence: Evidence, fsync_limit_s: float) -> list[Cause]:
    """What is wrong with etcd, as the asking node and the others see it."""
    reading = evidence.etcd
    if isinstance(reading, Unknown):
        return _access(reading, evidence) or _unreachable(reading, evidence) or _silent(reading, evidence)
    if not isinstance(reading, Known):
        return []
    return [*_facts(reading.value, fsync_limit_s), *_paths(evidence), *_wrong_api(reading.value, evidence)]


def _access(reading: Unknown, evidence: Evidence) -> list[Cause]:
    """etcd is there and does not let this reader in."""
    what = reading.detail.split(":", 1)[0]
    said = f"{evidence.asks}: {reading.detail}"
    if reading.reason is UnknownReason.DENIED and what in ("tls", "access", "credentials"):
        return [confirmed("etcd-access", evidence.etcd_endpoint, said)]
    if what == "not-http":
        return [likely("etcd-access", evidence.etcd_endpoint, said, decides=("whether it is an https endpoint",))]
    return []


def _wrong_api(facts: EtcdFacts, evidence: Evidence) -> list[Cause]:
    """Somebody looked for the keys, or cleaned them up, where they are not."""
    if not says(evidence.symptom, "stale-rendezvous/etcdctl-v3"):
        return []
    runs = evidence.runs.value.second if isinstance(evidence.runs, Known) else ()
    there = f"v2 holds {sum(len(r.keys) + r.cut for r in runs)} keys of {len(runs)} runs"
    seen = "" if facts.v3_keys is None else f"; v3 holds {facts.v3_keys} below the same names"
    words = f"`etcdctl get/del --prefix` speaks v3, torch writes in v2. It shows nothing and deletes nothing ({there}{seen})"
    return [confirmed("etcdctl-v3", facts.endpoint, words)]


def _views(evidence: Evidence) -> list[tuple[NodeFacts, Reachability]]:
    wanted = {address_of(e) for e in evidence.endpoints if e.startswith("http")}
    return [(n, r) for n in known_nodes(evidence) for r in n.reach if r.address in wanted]


def _unreachable(reading: Unknown, evidence: Evidence) -> list[Cause]:
    where = ", ".join(evidence.endpoints)
    said = f"{evidence.asks}: {reading.detail or reading.reason}"
    if reading.reason is not UnknownReason.UNREACHABLE:
        return []
    views = _views(evidence)
    reached = [n.node for n, r in views if not r.error]
    if reached:
        words = f"reached from {', '.join(reached)}, not from {evidence.asks}"
        return [confirmed("etcd-unreachable-from-node", where, said, words)]
    if views and len(known_nodes(evidence)) == len(evidence.nodes):
        errors = {f"{n.node}: {r.error}" for n, r in views}
        if all(r.error == "connection refused" for _, r in views):
            return [confirmed("etcd-down", where, said, *sorted(errors), "its port is closed for every node")]
        return [likely("etcd-down", where, said, *sorted(errors), decides=("a firewall would look alike",))]
    return [possible("etcd-down", where, said, decides=("whether the other nodes reach it",))]


def _silent(reading: Unknown, evidence: Evidence) -> list[Cause]:
    """It accepts connections and does not answer."""
    held = evidence.etcd_stopped.value if isinstance(evidence.etcd_stopped, Known) else ()
    takes = [n.node for n, r in _views(evidence) if not r.error]
    if not reading.detail.startswith("timed-out") or not (takes or held):
        return []
    said, where = f"{evidence.asks}: {reading.detail}", evidence.etcd_endpoint
    if held:
        stopped = (f"pid {x.process.pid} on {x.node}, which listens there, is stopped by a signal (state T)" for x in held)
        return [confirmed("etcd-stuck", where, said, *stopped)]
    check = ("the state of etcd's process on its own machine, and the disk below it",)
    return [likely("etcd-stuck", where, said, f"it accepts connections from {', '.join(takes)}", decides=check)]


def _facts(facts: EtcdFacts, fsync_limit_s: float) -> list[Cause]:
    causes = []
    where = facts.endpoint
    if isinstance(facts.alarms, Known) and "NOSPACE" in facts.alarms.value:
        size = f"database {facts.db_bytes / 1e6:.0f} MB" if facts.db_bytes else "size not known"
        causes.append(confirmed("etcd-full", where, f"alarm NOSPACE, {size}: writes are refused"))
    if facts.v2 is False:
        causes.append(_no_v2(facts))
    if not facts.healthy and not causes:
        causes.append(confirmed("etcd-unhealthy", where, f"/health says {facts.health[:200]}"))
    if facts.fsync_p99_s is not None and facts.fsync_p99_s > fsync_limit_s:
        words = f"99 % of its log writes take up to {facts.fsync_p99_s:.3g} s; the limit is {fsync_limit_s:g} s"
        causes.append(likely("etcd-slow-disk", where, words, decides=("iostat on its host while it is slow",)))
    return causes


def _no_v2(facts: EtcdFacts) -> Cause:
    parts = [int(p) for p in facts.version.split(".")[:2] if p.isdecimal()]
    said = f"version {facts.version or 'not known'}, /v2/keys answers {facts.v2_said[:120]!r}"
    if not parts:
        return likely("etcd-v2-off", facts.endpoint, said, decides=("its version: etcd 3.6 and later have no v2 API at all",))
    if parts >= [3, 6]:
        return confirmed(
            "etcd-v2-gone",
            facts.endpoint,
            said,
            "etcd 3.6 no longer has a v2 API; both torch backends need it",
        )
    return confirmed(
        "etcd-v2-off",
        facts.endpoint,
        said,
        "etcd 3.4 and 3.5 serve v2 only when started with --enable-v2=true",
    )


def _paths(evidence: Evidence) -> list[Cause]:
    """Nodes that cannot reach an etcd which others reach."""
    causes = []
    for node, reach in _views(evidence):
        if not reach.error:
            continue
        slug = "endpoint-unresolvable" if not reach.resolves else "etcd-unreachable-from-node"
        words = f"{node.node}: {reach.error}"
        causes.append(confirmed(slug, f"{reach.address} from {node.node}", words, "other nodes reach it"))
    return causes
