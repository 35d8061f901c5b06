"""The gateway's three files, read again when they change. A broken new one is said so, and the old one stays in use."""

import logging
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from flows.config import load_fleet, load_policy, read_text
from flows.specs import SLUGS, load_spec
from runbooks.alerts.mapping import AlertsFile
from runbooks.core.config import ConfigError, Fault, parse_yaml
from runbooks.core.fleet import Fleet
from runbooks.core.knowledge import load_runbook
from runbooks.core.names import there_are
from runbooks.core.policy import Mode, Policy

log = logging.getLogger("gateway.files")
DEFAULT_ALERTS = str(Path(__file__).parents[1] / "alerts.yaml")


@dataclass(frozen=True)
class Files:
    """What they say. `policy` is None without a policy file: then alerts only diagnose."""

    alerts: AlertsFile
    fleet: Fleet
    policy: Policy | None

    def most(self, mode: Mode) -> Mode:
        """What a run may do: the least of what the row and the policy file say."""
        cap = self.policy.mode if self.policy else Mode.DIAGNOSE
        return min(mode, cap, key=lambda m: m.rank)


def load_alerts(path: str) -> AlertsFile:
    """The alerts file, with the names of every runbook and its options checked. Raises ConfigError."""
    return parse_yaml(read_text(path), AlertsFile, path, _faults)


def _faults(found: AlertsFile) -> Iterator[Fault]:
    """Runbooks that do not exist, options that a runbook does not have, and names of rules that are given twice."""
    names = [r.name for r in found.rules]
    for i, r in enumerate(found.rules):
        if r.runbook not in SLUGS:
            yield ("rules", i, "runbook"), f"rule {r.name}: no runbook {r.runbook!r}; {there_are(r.runbook, SLUGS)}"
        elif r.options:
            known = load_runbook(r.runbook).options
            for option in (o for o in r.options if o not in known):
                yield ("rules", i, "options", option), f"rule {r.name}: {r.runbook} has no such option; {there_are(option, known)}"
        if r.name in names[:i]:
            yield ("rules", i, "name"), f"name given twice: {r.name}; give each row a name of its own"


def load_files(alerts: str, fleet: str | None, policy: str | None) -> Files:
    """All three. Raises ConfigError."""
    return Files(load_alerts(alerts or DEFAULT_ALERTS), load_fleet(fleet), load_policy(policy) if policy else None)


def other_targets(slug: str, fleet: Fleet) -> tuple[str, ...]:
    """Names besides nodes that the runbook takes in this fleet."""
    return load_spec(slug).targets(fleet)


class WatchedFiles:
    """The files as they are now, or as they last were in order."""

    def __init__(self, alerts: str, fleet: str | None, policy: str | None) -> None:
        self._paths = (alerts or DEFAULT_ALERTS, fleet, policy)
        self._lock = threading.Lock()
        self._seen = self._stamp()
        self._files = load_files(*self._paths)
        self.in_order = True

    def now(self) -> Files:
        """Reads again what changed since the last time. Whoever asks meanwhile waits for the new files."""
        with self._lock:
            stamp = self._stamp()
            if stamp != self._seen:
                self._seen = stamp
                self._read_again()
            return self._files

    def _read_again(self) -> None:
        try:
            self._files, self.in_order = load_files(*self._paths), True
            log.info("files read again: %s", ", ".join(p for p in self._paths if p))
        except ConfigError as e:
            self.in_order = False
            log.error("a changed file cannot be used; the old one stays in use: %s", " | ".join(str(e).splitlines()))

    def _stamp(self) -> tuple[tuple[int, int, int] | None, ...]:
        return tuple(_stamp_of(p) for p in self._paths)


def _stamp_of(path: str | None) -> tuple[int, int, int] | None:
    try:
        found = Path(path).stat() if path else None
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_size, found.st_ino) if found else None
