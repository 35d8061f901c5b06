"""The evidence with its readings opened, and ages."""

from datetime import datetime, timedelta

from runbooks.core.judgment import Judgment
from runbooks.core.reading import Known
from runbooks.parsers.runpod import Phase, Pod, Runtime, layer_gb
from runbooks.spawning.evidence import Evidence, PodRead
from runbooks.spawning.limits import Limits


class SpawningView(Judgment):
    """What was read, opened, and the causes found so far."""

    def __init__(self, e: Evidence, limits: Limits) -> None:
        super().__init__("stuck-spawning", f"worker {e.worker}")
        self.e, self.limits = e, limits
        self.row = e.row.value if isinstance(e.row, Known) else None
        self.reads: tuple[PodRead, ...] = e.pod.value if isinstance(e.pod, Known) else ()
        self.pod: Pod | None = self.reads[-1].pod if self.reads else None
        self.log = e.pod_log.value if isinstance(e.pod_log, Known) else ()
        self.ssh = e.ssh.value if isinstance(e.ssh, Known) else None
        self.inside = e.inside.value if isinstance(e.inside, Known) else None
        self.stored = e.stored_log.value if isinstance(e.stored_log, Known) else ()
        self.orch = e.orchestrator.value if isinstance(e.orchestrator, Known) else None
        self.tasks = e.tasks.value if isinstance(e.tasks, Known) else ()
        self.workers = e.workers.value if isinstance(e.workers, Known) else ()
        self.pods = e.pods.value if isinstance(e.pods, Known) else ()
        self.stock = e.stock.value if isinstance(e.stock, Known) else None

    def age(self, at: datetime | None) -> float | None:
        """Seconds since then."""
        return None if at is None else (self.e.taken_at - at).total_seconds()

    @property
    def waits_s(self) -> float:
        """How long this worker has been coming up: since the pod's start, else since the row."""
        started = self.pod.started_at or self.pod.created_at if self.pod else None
        known = started or (self.row.created if self.row else None)
        return max(0.0, self.age(known) or 0.0)

    @property
    def apart(self) -> bool:
        """Two reads of the pod that are far enough apart to say the same twice."""
        return (
            len(self.reads) >= 2 and (self.reads[-1].at - self.reads[0].at).total_seconds() >= self.limits.gap_s * 0.9
        )

    @property
    def gone(self) -> bool:
        """Not there, on two reads apart."""
        return self.apart and all(r.pod is None for r in self.reads)

    @property
    def running(self) -> bool:
        """The provider says that it runs and a container exists."""
        return self.pod is not None and self.pod.phase is Phase.RUNNING and self.pod.runtime is not Runtime.NULL

    @property
    def usual(self) -> tuple[float, ...]:
        """Seconds that earlier starts of this very image took from the pod's start to its container."""
        u = self.e.usual
        return u.value.seconds if isinstance(u, Known) else ()

    @property
    def unusual(self) -> bool:
        """It takes far longer than any of several earlier starts of this image."""
        most = max(self.usual, default=0.0)
        far = max(most * self.limits.usual_times, most + 6 * self.limits.gap_s)
        return len(self.usual) >= self.limits.usual_least and self.waits_s > far

    @property
    def image_gb(self) -> float | None:
        """Size of the image's layers as the pull log shows them."""
        sizes: dict[str, float] = {}
        for line in self.log:
            if found := layer_gb(line):
                sizes[found[0]] = max(sizes.get(found[0], 0.0), found[1])
        return sum(sizes.values()) if sizes else None

    @property
    def budget_s(self) -> float:
        """How long pull and boot may take: by the image's size, or what several starts of this very image took."""
        size = self.image_gb
        by_size = self.limits.pull_unknown_s if size is None else self.limits.boot_s + self.limits.pull_s_per_gb * size
        return max(by_size, *self.usual) if len(self.usual) >= self.limits.usual_least else by_size

    @property
    def until(self) -> datetime:
        """When the budget is used up."""
        return self.e.taken_at + timedelta(seconds=max(0.0, self.budget_s - self.waits_s))

    @property
    def cycling(self) -> bool | None:
        """Whether the orchestrator goes round now; None: not known."""
        if self.orch is None or self.orch.last_cycle is None:
            return None
        return (self.age(self.orch.last_cycle) or 0.0) <= self.limits.cycle_s

    @property
    def reports(self) -> bool:
        """The row's heartbeat is fresh: something lives there."""
        beat = self.age(self.row.heartbeat) if self.row else None
        return beat is not None and beat <= self.limits.heartbeat_s
