"""What the gateway counts, as Prometheus reads it. Label values are from closed sets: no sender can make new ones."""

from collections.abc import Callable
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest
from prometheus_client.registry import Collector

from runbooks.core.refusal import RefusalCode

BUCKETS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1, 1.5, 2, 3, 5, 10, 20)


class Metrics:
    """One registry per gateway."""

    def __init__(self, queue: Callable[[], tuple[int, int]], restarts: Callable[[], int]) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._registry = CollectorRegistry()
        known: dict[str, Any] = {"registry": self._registry, "namespace": "gpu_runbooks_gateway"}
        self.alerts = Counter("alerts", "Alerts by sender's format and result", ("source", "outcome"), **known)
        self.requests = Counter("requests", "Requests to /alerts by HTTP status", ("source", "code"), **known)
        self.answer = Histogram("answer_seconds", "From the request to its answer", ("source",), buckets=BUCKETS, **known)
        self.config_ok = Gauge("config_ok", "1 if the files in use are the files on disk, 0 if a new one is broken", **known)
        self.last = Gauge("last_alert_timestamp_seconds", "When an alert was last accepted (Unix time)", **known)
        self.runs = Counter("runs", "Runs that ended here, by outcome", ("outcome",), **known)
        self.refusals = Counter("refusals", "Guards' refusals in runs that ended here, by code", ("code",), **known)
        for code in RefusalCode:
            self.refusals.labels(code.value)
        self.storms = Counter("storms", "Alerts that were limited to diagnose because many fail alike", **known)
        Gauge("queued_runs", "Runs that wait for a free process", **known).set_function(lambda: queue()[0])
        Gauge("running_runs", "Runs that now have their own process", **known).set_function(lambda: queue()[1])
        Gauge("warm_restarts", "How often the warm process had to be restarted", **known).set_function(restarts)

    def also(self, collector: Collector) -> None:
        """More metrics on the same page."""
        self._registry.register(collector)

    def text(self) -> bytes:
        """The page."""
        return generate_latest(self._registry)
