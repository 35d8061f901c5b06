"""Reads the fleet and policy files that a run was given by path, and says which folder its reports go to."""

import hashlib
import os

from flows.known_names import fleet_faults, policy_faults
from runbooks.core.config import ConfigError, parse_yaml
from runbooks.core.fleet import LOCAL_FLEET, Fleet, Node
from runbooks.core.fleet_names import unnamed
from runbooks.core.names import LABEL, there_are
from runbooks.core.policy import Policy
from tasks.this_machine import host_name
from tasks.transport.base import TransportError
from tasks.transport.open import parse_target
from tasks.whole_file import read_whole

LARGEST = 8 << 20


def read_text(path: str) -> str:
    """The text of a configuration file. Raises ConfigError that says why it cannot be read."""
    try:
        return read_whole(path, LARGEST).decode("utf-8")
    except UnicodeDecodeError as e:
        raise ConfigError(f"{path}: not UTF-8 text (byte {e.start})") from e
    except OSError as e:
        raise ConfigError(f"{path}: {e.strerror or e}") from e


def fleet_file(path: str | None) -> str | None:
    """The fleet file that a run uses: the one it was given, else the one named by GPU_RUNBOOKS_FLEET, else none."""
    return path or os.environ.get("GPU_RUNBOOKS_FLEET") or None


def load_fleet(path: str | None) -> Fleet:
    """The fleet file; where there is none, this machine alone.

    A fleet that nobody named is named by its file's path, or by this machine: two such fleets share no budget, breaker,
    history and page. The path as it is written: what a link leads to changes with each roll-out.
    """
    path = fleet_file(path)
    if not path:
        return _named_by(LOCAL_FLEET, host_name())
    place = os.path.abspath(path)  # noqa: PTH100 - text in, text out
    fleet = parse_yaml(read_text(path), Fleet, path, fleet_faults).read_from(place)
    return fleet if "name" in fleet.model_fields_set else _named_by(fleet, place)


def _named_by(fleet: Fleet, what: str) -> Fleet:
    return fleet.model_copy(update={"name": unnamed(hashlib.sha256(what.encode()).hexdigest()[:8])})


def load_policy(path: str | None) -> Policy:
    """The policy file; with no path the file named by GPU_RUNBOOKS_POLICY, else nothing is automatic."""
    path = path or os.environ.get("GPU_RUNBOOKS_POLICY")
    return parse_yaml(read_text(path), Policy, path, policy_faults) if path else Policy()


def with_target(fleet: Fleet, target: str, given: bool, others: tuple[str, ...] = ()) -> tuple[Fleet, str]:
    """The fleet with `target` in it. `user@host[:port]` works without a fleet file. Raises ConfigError.

    `others` are names besides the nodes that the runbook takes, alone or followed by `/` and a part of theirs.
    """
    if any(n.name == target for n in fleet.nodes) or target.split("/", 1)[0] in others:
        return fleet, target
    if not given and ("@" in target or ":" in target):
        try:
            node = parse_target(target)
        except (ValueError, TransportError) as e:
            raise ConfigError(f"target {target!r}: {e}") from e
        node = Node.model_validate(
            node.model_dump() | {"hands_off": True, "reason": "not in a fleet file: diagnose only"}
        )
        return fleet.model_copy(update={"nodes": (*fleet.nodes, node)}), node.name
    if target.startswith(LABEL):
        raise ConfigError(f"target {target!r}: labels are for runs that the server starts; here name one node")
    known = there_are(target, (*(n.name for n in fleet.nodes), *others))
    raise ConfigError(f"target {target!r}: no node of that name in fleet {fleet.name!r}; {known}")
