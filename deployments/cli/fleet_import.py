"""Makes fleet file text from an ssh config or from a hosts YAML. What cannot be carried over is told as comments."""

from argparse import Namespace
from pathlib import Path

import yaml

from deployments.cli.imported import Imported, read_text
from deployments.errors import CommandError


def cmd_import(ns: Namespace) -> int:
    """`fleet import`: prints the fleet file."""
    print(made_from(ns.source, Path(ns.file)), end="")
    return 0


def made_from(source: str, path: Path) -> str:
    """Fleet file text from what that source's file says. Raises CommandError."""
    from deployments.cli.fleet_sources import SOURCES

    if source == "ssh-config":
        return from_ssh_config(path)
    if source == "hosts":
        return from_hosts_yaml(path)
    found = Imported()
    SOURCES[source](read_text(path), found)
    return render(found, str(path))


def render(found: Imported, origin: str) -> str:
    """The fleet file's text, proven to be one. Raises CommandError."""
    from runbooks.core.clean import one_line
    from runbooks.core.config import ConfigError, parse_yaml
    from runbooks.core.fleet import Fleet

    told = [f"# note: {remark}" for remark in found.remarks]
    if not found.nodes:
        raise CommandError("\n".join([f"{origin}: no host found that can be a node", *told]))
    head = [f"# Made from {one_line(origin)}. Read it, then: gpu-runbooks fleet check FILE", *told]
    body = yaml.safe_dump({"name": "imported", "nodes": found.nodes}, sort_keys=False, allow_unicode=True)
    text = "\n".join(head) + "\n" + body
    try:
        parse_yaml(text, Fleet, "(the imported text)")
    except ConfigError as e:
        raise CommandError(f"{origin}: the result is not a valid fleet file:\n{e}") from e
    return text


def from_ssh_config(path: Path) -> str:
    """Fleet file text from an ssh config: one node per plain Host name; Include is followed, the rest is told."""
    from deployments.cli.fleet_ssh import read_ssh_config

    found = Imported()
    read_ssh_config(path, found)
    return render(found, str(path))


def from_hosts_yaml(path: Path) -> str:
    """Fleet file text from a hosts YAML (name -> ssh_host, ssh_port, ssh_user, ssh_key …)."""
    from deployments.cli.fleet_hosts import read_hosts

    found = Imported()
    read_hosts(read_text(path), str(path), found)
    return render(found, str(path))
