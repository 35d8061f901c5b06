"""`gpu-runbooks fleet check` and `fleet import`: check a fleet file, or make one from an inventory."""

import json
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runbooks.core.fleet import Fleet, Node


def cmd_fleet(ns: Namespace) -> int:
    """Dispatches to check or import."""
    return check(ns) if ns.fleet_command == "check" else import_from(ns)


def check(ns: Namespace) -> int:
    """Reads the fleet file (and the policy file) and prints what they say. Raises ConfigError with every fault."""
    from deployments.cli.display import show_lines
    from deployments.cli.missing_secrets import check_secrets
    from flows.config import load_fleet, load_policy
    from runbooks.core.changed_limits import all_changed

    fleet = load_fleet(ns.file)
    policy = load_policy(ns.policy) if ns.policy else None
    check_secrets(fleet, ns.file)
    if ns.json:
        body: dict[str, Any] = {"fleet": fleet.model_dump(mode="json"), "policy": policy.model_dump(mode="json") if policy else None}
        body["changed_limits"] = [limit.model_dump(mode="json") for limit in all_changed(fleet)]
        print(json.dumps(body, indent=1))
        return 0
    print(f"{ns.file}: fleet {fleet.name!r} is valid")
    limits = (f"  limit of {limit.runbook}: {limit}" for limit in all_changed(fleet))
    show_lines([*(f"  {node.name}: {_describe(node)}" for node in fleet.nodes), *limits])
    print(f"  {len(fleet.jobs)} kinds of job, leader: {fleet.leader.url if fleet.leader else 'none'}")
    for line in _warnings(fleet):
        print(f"warning: {line}")
    return 0


def _describe(node: "Node") -> str:
    where = "this machine" if node.local else f"{node.user + '@' if node.user else ''}{node.host}:{node.port}"
    jump = f" through {node.jump.host}" if node.jump else ""
    return f"{where}{jump}" + (f", hands off: {node.reason or 'no reason given'}" if node.hands_off else "")


def _warnings(fleet: "Fleet") -> list[str]:
    """What is allowed but probably not meant."""
    from tasks.installation import lasting
    from tasks.whole_file import nearest_beside

    found = []
    for node in fleet.nodes:
        for name, path in (("key.file", node.key and node.key.file), ("known_hosts", node.known_hosts)):
            if path and not lasting(path).is_file():
                found.append(f"node {node.name}: {name}: no file {path} on this machine{nearest_beside(lasting(path))}")
    for job in fleet.jobs:
        if not job.progress:
            found.append(f"job {job.name}: no sign of progress configured, so a hang is at most possible, never confirmed")
    return found


def import_from(ns: Namespace) -> int:
    """Prints a fleet file made from an ssh config or a hosts YAML."""
    from deployments.cli import fleet_import

    if not ns.json:
        return fleet_import.cmd_import(ns)
    import yaml

    text = fleet_import.made_from(ns.source, Path(ns.file))
    print(json.dumps({"yaml": text, "fleet": yaml.safe_load(text)}, indent=1))
    return 0
