"""Who else acts on the container is stopped first: units in their present life, old loops by process identity. As data."""

import shlex

from runbooks.container.evidence import Evidence, Supervisor
from runbooks.container.others import systemctl
from runbooks.core.args.containers import StopSupervisor, StopUnit
from runbooks.core.by_hand import signalled
from runbooks.core.plan import Step
from runbooks.core.reading import value_of


def stop_units(e: Evidence) -> list[Step]:
    """systemd units that run and restart it, each in its present life."""
    return [
        Step(
            kind="stop-unit", owner=e.node, args=unit_of(s).plain(),
            commands=(stopping(s),),
            effect=f"{s.name} no longer acts on {e.name} until it is started or the machine boots",
            loses="what the unit does besides; disable it by hand if it shall not come back at a boot",
        )
        for s in value_of(e.supervisors) or ()
        if s.kind == "systemd" and s.life
    ]  # fmt: skip


def unit_of(s: Supervisor) -> StopUnit:
    """The unit in the life that was judged."""
    return StopUnit(unit=s.name, life=s.life) if s.uid is None else StopUnit(unit=s.name, life=s.life, uid=s.uid)


def stopping(s: Supervisor) -> str:
    """Stops the unit, in the life that was judged."""
    name = shlex.quote(s.name)
    return f'[ "$({systemctl(s)} show -p InvocationID --value {name})" = {shlex.quote(s.life)} ] && {systemctl(s)} stop {name}'


def stop_loops(e: Evidence) -> list[Step]:
    """Old retry loops, by process identity."""
    host = value_of(e.host)
    return [
        Step(
            kind="stop-supervisor", owner=e.node,
            args=StopSupervisor(pid=s.pid, start_ticks=s.start_ticks, boot_id=host.boot_id, command=s.command).plain(),
            commands=(signalled(s.pid, s.start_ticks, "TERM"),), effect=f"the old retry loop {s.name} no longer acts on {e.name}",
            loses="whatever else that script does",
        )
        for s in value_of(e.supervisors) or ()
        if s.kind == "retry-loop" and s.pid and s.pid > 0 and s.start_ticks and host
    ]  # fmt: skip
