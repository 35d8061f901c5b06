"""The watch itself: hears of changes, decides what is a fault, and starts the container-death runbook about it."""

import contextlib
import logging
import queue
import time
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import Any

from deployments.gateway.runner import Runner
from deployments.watch.fleet_file import FleetFile
from deployments.watch.listeners import EngineListener, Listener, RayListener
from deployments.watch.runs import Found, adopt, answer_of, open_run
from deployments.watch.settings import Settings
from flows.launch import hand_to_worker
from runbooks.container.watching import Case, ContainerSeen, after_run, follow, is_due, trouble_of
from runbooks.core.config import ConfigError
from runbooks.core.containers_config import ManagedContainer
from runbooks.core.fleet import Fleet
from tasks.container.watch import living_node, seen_at_engine
from tasks.container.watch_record import append
from tasks.context import utc_now

log = logging.getLogger("watch")
TICK_S, ELSEWHERE_S = 0.5, 2.0
AT_ONCE = 8  # runs in processes of their own; more wait in line


@dataclass
class WatchedContainer:
    """One container and where its case stands."""

    it: ManagedContainer
    seen: ContainerSeen = field(default_factory=ContainerSeen)
    heard: bool = False
    was_well: bool = False
    case: Case | None = None
    run: str = ""  # id of the run about it that has not ended
    ours: bool = True  # False: another process runs it; asked for its end now and then
    ask_at: float = 0.0


class Watch:
    """All containers of a fleet file, until `stop()`."""

    def __init__(self, fleet: Fleet, settings: Settings) -> None:
        if not fleet.containers:
            raise ConfigError("the fleet file names no `containers`: nothing to watch")
        self.fleet, self.settings, self._file = fleet, settings, FleetFile(settings.fleet)
        self.watched = {(c.node, c.name): WatchedContainer(c) for c in fleet.containers}
        self._heard: queue.Queue[tuple[str, Any]] = queue.Queue()
        self._runner = Runner(AT_ONCE, lambda run, clean: self._say("ended", (run, clean)))
        self._listeners = [*self._engines(), *self._head()]
        self._ending = False
        self._unkept = ""  # why the last samples could not be kept

    def _say(self, what: str, data: Any) -> None:
        self._heard.put((what, data))

    def _engines(self) -> list[Listener]:
        groups: dict[tuple[str, str], list[ManagedContainer]] = defaultdict(list)
        for c in self.fleet.containers:
            groups[c.node, c.socket].append(c)
        return [EngineListener(self.fleet.node(node), group, self._say) for (node, _), group in groups.items()]

    def _head(self) -> list[Listener]:
        ips = [c.ray_ip for c in self.fleet.containers if c.ray_ip]
        ray = self.fleet.ray
        return [RayListener(self.fleet.node(ray.head), ray, ips, self._say)] if ray and ips else []

    def stop(self) -> None:
        """Ends `run` soon; runs in progress are let end by `drain`."""
        self._ending = True
        self._say("stop", None)

    def run(self) -> None:
        """Watches until `stop()`. Raises RuntimeError when the warm process does not come up."""
        self._runner.start()
        self._listen()
        while not self._ending:
            if other := self._file.changed(self.fleet):
                self._change(other)
            with contextlib.suppress(queue.Empty):
                self._hear(*self._heard.get(timeout=TICK_S))
            for w in self.watched.values():
                self._tick(w)

    def _listen(self) -> None:
        for listener in self._listeners:
            listener.start()
        log.info("watching %s", ", ".join(f"{name} on {node}" for node, name in self.watched))

    def _change(self, fleet: Fleet) -> None:
        """Watches what another fleet file names. What was known of a container that it still names stays."""
        for listener in self._listeners:
            listener.ending.set()
        old, self.fleet, self.watched = self.watched, fleet, {}
        for c in fleet.containers:
            before = old.get((c.node, c.name))
            self.watched[c.node, c.name] = replace(before, it=c) if before else WatchedContainer(c)
        log.info("the fleet file changed")
        self._listeners = [*self._engines(), *self._head()]
        self._listen()

    def drain(self, limit_s: float) -> None:
        """No new run; waits for the own ones to end."""
        for listener in self._listeners:
            listener.ending.set()
        self._runner.drain()
        deadline = time.monotonic() + limit_s
        while not self._runner.idle() and time.monotonic() < deadline:
            time.sleep(0.1)
        self._runner.close()

    def _hear(self, what: str, data: Any) -> None:
        if what in ("engine", "unreachable", "ray") and data[0] not in self._listeners:
            return  # one of an older fleet file
        if what == "engine":
            listener, answer = data
            for c in listener.containers[:1] if answer["problem"] else listener.containers:  # one run for the engine
                w = self.watched[c.node, c.name]
                w.seen, w.heard = seen_at_engine(w.seen, answer, c.name), True
                self._record(c, answer["samples"])
        elif what == "unreachable":
            c = data[0].containers[0]
            w = self.watched[c.node, c.name]
            w.seen, w.heard = w.seen.model_copy(update={"unreachable": data[1]}), True
        elif what == "ray":
            for w in self.watched.values():
                if w.it.ray_ip:
                    w.seen = w.seen.model_copy(update={"ray_node": living_node(w.seen, data[1], w.it.ray_ip)})
        elif what == "ended":
            self._ended(data[0])

    def _record(self, it: ManagedContainer, samples: list[dict[str, Any]]) -> None:
        """Keeps the samples; a full disk here costs them, not the watch."""
        try:
            append(it.node, it.name, samples)
            self._unkept = ""
        except OSError as e:
            if self._unkept != str(e):
                log.warning("observations of %s on %s cannot be stored: %s", it.name, it.node, e)
            self._unkept = str(e)

    def _tick(self, w: WatchedContainer) -> None:
        """Looks at one container: a run that another process runs, a fault that is new or due again."""
        if w.run:
            if not w.ours and time.monotonic() >= w.ask_at:
                w.ask_at = time.monotonic() + ELSEWHERE_S
                self._check_elsewhere(w)
            return
        if not w.heard:
            return
        trouble = trouble_of(w.it.name, w.seen, self.settings.patience)
        before, w.case = w.case, follow(w.case, trouble, w.was_well, utc_now())
        if w.case and (before is None or before.trouble.key != w.case.trouble.key):
            log.warning("%s on %s: %s", w.it.name, w.it.node, w.case.trouble.words)
        if before and not w.case:
            log.info("%s on %s is well", w.it.name, w.it.node)
        w.was_well = trouble is None or (w.was_well and w.case is before)
        if w.case and is_due(w.case, utc_now()):
            self._start(w, w.case)

    def _start(self, w: WatchedContainer, case: Case) -> None:
        """A run about `case`: one that is under way already, else a new one in a forked process."""
        try:
            found = adopt(self.fleet.name, w.it, case) or open_run(self.fleet.name, w.it, case, self.settings)
        except Exception as e:
            log.warning("%s on %s: no run: %s: %s", w.it.name, w.it.node, type(e).__name__, e)
            w.case = after_run(case, None, (), self.settings.mode, self.settings.patience, utc_now())
            return
        self._begin(w, found)

    def _begin(self, w: WatchedContainer, found: Found) -> None:
        w.run, w.ours, w.ask_at = found.run, found.ours, 0.0
        if found.ours and not self._runner.submit(found.run, "container-death"):
            w.ours = not hand_to_worker(found.run, "the watch cannot run it itself")
        log.info("%s on %s: run %s%s", w.it.name, w.it.node, found.run, "" if found.ours else " (runs already)")

    def _ended(self, run: str) -> None:
        for w in self.watched.values():
            if w.run == run and not self._never_began(w):
                self._close(w)

    def _never_began(self, w: WatchedContainer) -> bool:
        """True if its process ended before it started it: a worker has it now, and is asked about it now and then."""
        try:
            w.ours = not hand_to_worker(w.run, "its process ended before it started")
        except Exception as e:
            log.warning("run %s: %s", w.run, type(e).__name__)
        return not w.ours

    def _check_elsewhere(self, w: WatchedContainer) -> None:
        try:
            if answer_of(w.run).over:
                self._close(w)
        except Exception as e:
            log.warning("run %s: %s", w.run, type(e).__name__)

    def _close(self, w: WatchedContainer) -> None:
        """Takes the run's answer into the case."""
        run, w.run = w.run, ""
        try:
            answer = answer_of(run)
            outcome, causes = answer.outcome, answer.causes
        except Exception as e:
            log.warning("run %s: its answer cannot be read: %s", run, type(e).__name__)
            outcome, causes = None, ()
        if w.case:
            w.case = after_run(w.case, outcome, causes, self.settings.mode, self.settings.patience, utc_now())
        what = f"{outcome}" if outcome else "no answer"
        log.info("%s on %s: run %s: %s%s", w.it.name, w.it.node, run, what,
                 f"; {w.case.done}" if w.case and w.case.done else "")  # fmt: skip
