"""The two sides joined: each pod with the rows that own it by id or by name, each row with its pod. Decides nothing. Pure."""

from collections.abc import Iterator
from datetime import datetime

from runbooks.core.base import Frozen
from runbooks.core.distinct import names_of
from runbooks.core.reading import Known, value_or
from runbooks.orchestrator.evidence import Evidence
from runbooks.parsers.runpod import Phase, Pod
from runbooks.parsers.worker_rows import WorkerRow


class Limits(Frozen):
    """No defaults: they come from runbook.yaml, overridden by the fleet file."""

    age_floor_s: float
    heartbeat_s: float
    gap_s: float
    looks_most: int
    asked_most: int
    offered_most: int
    unfit_least: int
    unfit_share: float


class Sides:
    """Rows and pods of one look, joined."""

    def __init__(self, e: Evidence, limits: Limits) -> None:
        self.e, self.limits = e, limits
        self.rows = value_or(e.rows_again, ())
        every = value_or(e.pods_again, ())
        self.ours = tuple(sorted((p for p in every if e.prefix and p.name.startswith(e.prefix)), key=lambda p: p.id))
        mine = {p.id for p in self.ours}
        self.foreign = tuple(p for p in every if p.id not in mine)
        self.there = tuple(p for p in self.ours if not is_gone(p))
        self.by_id = {r.id: r for r in self.rows}
        self.naming: dict[str, list[WorkerRow]] = {}
        for row in self.rows:
            if row.pod_id:
                self.naming.setdefault(row.pod_id, []).append(row)

    def age(self, at: datetime | None) -> float | None:
        """Seconds since then; None where it is not told."""
        return (self.e.taken_at - at).total_seconds() if at else None

    def pod_age(self, pod: Pod) -> float | None:
        """Seconds since the pod was made, or where that is not told, since it was started last."""
        return self.age(pod.created_at or pod.started_at)

    def young(self, age: float | None) -> bool:
        """Below the age floor; what is not told is not called young, and is not judged old either."""
        return age is not None and age < self.limits.age_floor_s

    def reports(self, row: WorkerRow) -> bool:
        """Its heartbeat is fresh. One ahead of our clock is fresh too."""
        age = self.age(row.heartbeat)
        return age is not None and age <= self.limits.heartbeat_s

    def held(self, worker: str) -> tuple[str, ...]:
        """Tasks in progress at it, sorted."""
        return tuple(sorted(t.id for t in value_or(self.e.tasks, ()) if t.worker == worker))

    def owners(self, pod: Pod) -> tuple[WorkerRow, ...]:
        """Rows that name the pod by its id, and the row whose id is the pod's name."""
        named = [self.by_id[pod.name]] if pod.name in self.by_id else []
        return tuple({r.id: r for r in (*self.naming.get(pod.id, ()), *named)}.values())

    def podless(self) -> Iterator[WorkerRow]:
        """Rows that say they live, and neither their pod nor one of their name is there."""
        ids, names = {p.id for p in self.there}, {p.name for p in self.there}
        foreign = {p.id for p in self.foreign}
        yield from (r for r in self.rows if r.status in self.e.live and r.pod_id not in ids | foreign and r.id not in names)


def is_gone(pod: Pod) -> bool:
    """The provider says that it was ended."""
    return pod.terminated or pod.phase is Phase.TERMINATED


def blind(e: Evidence) -> tuple[str, ...]:
    """Why nothing may be concluded from these lists: one failed, is empty, is cut, or the two looks differ."""
    lists = (("the provider's pods", e.pods, e.pods_again), ("the workers' rows", e.rows, e.rows_again))
    why = [f"{name} could not be read, twice" for name, *looks in lists if not all(isinstance(x, Known) for x in looks)]
    why += [f"{name}: the list is empty, and an empty list decides nothing" for name, *looks in lists
            if any(isinstance(x, Known) and not x.value for x in looks)]  # fmt: skip
    if isinstance(e.pods, Known) and isinstance(e.pods_again, Known):
        one, two = ({(p.id, p.name, p.status) for p in x.value} for x in (e.pods, e.pods_again))
        why += [f"two looks at the pods differ: {names_of(sorted({x[0] for x in one ^ two}))}"] if one != two else []
        why += _doubled("pod", [p.id for p in e.pods_again.value])
    if isinstance(e.rows, Known) and isinstance(e.rows_again, Known):
        mine, later = ({(r.id, r.status, r.pod_id) for r in x.value} for x in (e.rows, e.rows_again))
        why += [f"two looks at the rows differ: {names_of(sorted({x[0] for x in mine ^ later}))}"] if mine != later else []
        why += _doubled("row", [r.id for r in e.rows_again.value])
    there = "and asked for by its id it is there"
    why += [f"the list of pods is cut: it lacks pod {id}, {there}" for id, said in _told(e.pods_by_id) if said]
    why += [f"the list of rows is cut: it lacks worker {id}, {there}" for id, said in _told(e.rows_by_id) if said]
    return tuple(why)


def _doubled(what: str, ids: list[str]) -> list[str]:
    twice = sorted({x for x in ids if ids.count(x) > 1}) if len(set(ids)) < len(ids) else []
    return [f"the list names {what} {names_of(twice)} twice"] if twice else []


def _told(reading: object) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(reading.value.items())) if isinstance(reading, Known) else ()
