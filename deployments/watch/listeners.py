"""Threads that wait at engines and at the Ray head and put what they hear into one queue."""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from runbooks.core.containers_config import ManagedContainer
from runbooks.core.fleet import Node
from runbooks.core.ray_config import RayCluster
from tasks.container.watch import known_from, wait_at_engine, wait_at_head
from tasks.transport.base import Host, TransportError
from tasks.transport.open import HostPool

WAIT_S, RAY_WAIT_S = 20.0, 20.0
SAMPLE_S, RAY_EVERY_S = 5.0, 1.0
AGAIN_S, LONGEST_AGAIN_S = 1.0, 30.0

Say = Callable[[str, Any], None]


class Listener(threading.Thread):
    """Asks again and again; a failed call is told and repeated after a growing pause, over a new connection."""

    def __init__(self, name: str, node: Node, say: Say) -> None:
        super().__init__(name=name, daemon=True)
        self.node, self.say, self.ending = node, say, threading.Event()

    def run(self) -> None:
        """Until the process ends or `ending` is set."""
        pause = AGAIN_S
        while not self.ending.is_set():
            pool = HostPool()
            try:
                while not self.ending.is_set():
                    self.once(pool(self.node))
                    pause = AGAIN_S
            except Exception as e:
                self.failed(e.why if isinstance(e, TransportError) else f"{type(e).__name__}: {e}")
            finally:
                pool.close_all()
            self.ending.wait(pause)
            pause = min(pause * 2, LONGEST_AGAIN_S)

    def once(self, host: Host) -> None:
        """One call. Raises TransportError."""
        raise NotImplementedError

    def failed(self, why: str) -> None:
        """Tells that the node could not be asked."""
        raise NotImplementedError


class EngineListener(Listener):
    """Waits at one engine of one node."""

    def __init__(self, node: Node, containers: Sequence[ManagedContainer], say: Say) -> None:
        super().__init__(f"engine {node.name}", node, say)
        self.containers = tuple(containers)
        self.known: dict[str, Any] | None = None
        self.since = time.time()

    def once(self, host: Host) -> None:
        """One wait at the engine."""
        answer = wait_at_engine(host, self.containers, self.known, self.since, WAIT_S, SAMPLE_S)
        self.known, self.since = known_from(answer, "states"), float(answer["since"])
        self.say("engine", (self, answer))

    def failed(self, why: str) -> None:
        """The node is out of reach; afterwards everything is looked at anew."""
        self.known = None
        self.say("unreachable", (self, why))


class RayListener(Listener):
    """Waits at the Ray head."""

    def __init__(self, node: Node, ray: RayCluster, ips: Sequence[str], say: Say) -> None:
        super().__init__(f"ray head {node.name}", node, say)
        self.ray, self.ips = ray, tuple(ips)
        self.known: dict[str, Any] | None = None

    def once(self, host: Host) -> None:
        """One wait at the head."""
        answer = wait_at_head(host, self.ray, self.ips, self.known, RAY_WAIT_S, RAY_EVERY_S)
        self.known = known_from(answer, "nodes")
        self.say("ray", (self, answer))

    def failed(self, why: str) -> None:
        """Nothing is known of the nodes then."""
        self.known = None
        self.say("ray", (self, {"nodes": {}, "problem": why}))
