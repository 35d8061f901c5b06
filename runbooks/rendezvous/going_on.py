"""An etcd that a signal stopped is continued; or why not."""

from collections.abc import Iterable

from runbooks.core.halted import go_on, not_from_here, withheld
from runbooks.core.plan import Plan
from runbooks.core.reading import Known
from runbooks.core.signals import continued
from runbooks.rendezvous.evidence import Evidence

SETTLE_S = 5.0  # source: the default heartbeat interval and election time-out of etcd are 0.1 and 1 s (etcd.io, tuning)
SLUG = "etcd-stuck"


def etcd_goes_on(slugs: Iterable[str], evidence: Evidence) -> tuple[tuple[Plan, ...], tuple[str, ...]]:
    """(the plan, why some are not continued). It keeps all its data; keys whose time has passed meanwhile expire."""
    if SLUG not in slugs or not isinstance(evidence.etcd_stopped, Known):
        return (), ()
    plans, notes = [], list[str]()
    for node in dict.fromkeys(x.node for x in evidence.etcd_stopped.value):
        here = [x.process for x in evidence.etcd_stopped.value if x.node == node]
        off = "the fleet file says hands off" if node in evidence.hands_off else ""
        against = {p.pid: off or not_from_here(p) for p in here}
        notes += [withheld(pid, why) for pid, why in against.items() if why]
        if not any(against.values()):
            effect = f"etcd answers at {evidence.etcd_endpoint} with all its data"
            plans.append(go_on(continued(node, here[0].boot_id, here, effect), SLUG, SETTLE_S))
    return tuple(plans), tuple(notes)
