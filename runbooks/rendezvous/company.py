"""A run is one: its agents, its workers on every node and its keys. While a worker of it lives, none of them is ended. Pure."""

from runbooks.core.members import process, run
from runbooks.core.reading import Known
from runbooks.core.verdict import Group
from runbooks.rendezvous.by_env import EnvJob, env_groups
from runbooks.rendezvous.evidence import Evidence
from runbooks.rendezvous.life import agents_of, known_nodes, life_of, workers_of
from runbooks.rendezvous.parsers.etcd_v2 import Backend, RunKeys


def groups(evidence: Evidence, jobs: tuple[EnvJob, ...]) -> tuple[Group, ...]:
    """One for each run that the store or an agent names, and for each of `jobs`, which have no torchrun."""
    stored = evidence.runs.value.second if isinstance(evidence.runs, Known) else ()
    agents = (a.launch for n in known_nodes(evidence) for a in n.agents if a.launch.backend in set(Backend))  # not a plug-in's
    named = {(r.run, r.backend) for r in stored} | {(a.run_id, Backend(a.backend)) for a in agents if a.run_id}
    return (*(_group(RunKeys(run=ident, backend=backend), evidence) for ident, backend in sorted(named)), *env_groups(jobs))


def _group(one: RunKeys, evidence: Evidence) -> Group:
    agents, workers = agents_of(one, evidence), workers_of(one, evidence)
    beats = life_of(one.run, one.backend, evidence).beating
    name = run(one.run, one.backend)
    return Group(
        name=name,
        members=(name, *(process(a.pid, a.node) for a in agents), *(process(w.pid, w.node) for w in workers)),
        ties=(f"run id {one.run}",),
        at_work=(
            *(f"worker pid {w.pid} on {w.node} (RANK {w.env.get('RANK', '?')}) lives" for w in workers),
            *(f"the heartbeat of {m.label} moved" for m in beats),
        ),
    )
