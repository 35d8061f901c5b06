"""Makes fleet file text from an ssh config or from a hosts YAML. What cannot be carried over is told as comments."""

import re
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from deployments.cli.imported import Imported
from deployments.errors import CommandError
from deployments.paths import home
from flows.config import LARGEST
from tasks.whole_file import read_whole

if TYPE_CHECKING:
    from paramiko.config import SSHConfig

_MAX_FILES = 64


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
    from runbooks.core.config import ConfigError, parse_yaml
    from runbooks.core.fleet import Fleet

    told = [f"# note: {' '.join(r.split())}" for r in found.remarks]
    if not found.nodes:
        raise CommandError("\n".join([f"{origin}: no host found that can be a node", *told]))
    head = [f"# Made from {origin}. Read it, then: gpu-runbooks fleet check FILE", *told]
    body = yaml.safe_dump({"name": "imported", "nodes": found.nodes}, sort_keys=False, allow_unicode=True)
    text = "\n".join(head) + "\n" + body
    try:
        parse_yaml(text, Fleet, "(the imported text)")
    except ConfigError as e:
        raise CommandError(f"{origin}: the result is not a valid fleet file:\n{e}") from e
    return text


def read_text(path: Path) -> str:
    """The file's text. Raises CommandError."""
    try:
        return read_whole(path, LARGEST).decode("utf-8")
    except (OSError, UnicodeDecodeError) as e:
        raise CommandError(f"{path}: {getattr(e, 'strerror', None) or 'not UTF-8 text'}") from e


def from_ssh_config(path: Path) -> str:
    """Fleet file text from an ssh config: one node per plain Host name; Include is followed, the rest is told."""
    from paramiko.config import SSHConfig
    from paramiko.ssh_exception import ConfigParseError

    found = Imported()
    text = "\n".join(_with_includes(home(path), home(path).parent, found, []))
    try:
        config = SSHConfig.from_text(_without_match(text, found))
    except (ConfigParseError, ValueError, IndexError) as e:
        raise CommandError(f"{path}: not an ssh config: {e}") from e
    for name in _plain_hosts(text, found):
        _add_host(config, name, found)
    return render(found, str(path))


def _with_includes(path: Path, base: Path, found: Imported, seen: list[Path]) -> list[str]:
    """The config's lines with included files in place of their Include lines."""
    if path in seen or len(seen) >= _MAX_FILES:
        found.remarks.append(f"Include of {path} not followed: it includes itself, or there are too many")
        return []
    seen.append(path)
    lines: list[str] = []
    for line in read_text(path).splitlines():
        keyword, value = _split(line)
        if keyword != "include":
            lines.append(line)
            continue
        for pattern in value.split():
            for file in _files_of(pattern.strip('"'), base, found):
                lines += _with_includes(file, base, found, seen)
    return lines


def _files_of(pattern: str, base: Path, found: Imported) -> list[Path]:
    wanted = home(pattern)
    root, rest = (
        (Path(wanted.anchor), str(wanted.relative_to(wanted.anchor))) if wanted.is_absolute() else (base, pattern)
    )
    files = sorted(p for p in root.glob(rest) if p.is_file())
    if not files:
        found.remarks.append(f"Include {pattern}: no such file")
    return files


def _split(line: str) -> tuple[str, str]:
    """Keyword in small letters and the value of a config line."""
    matched = re.match(r"\s*([A-Za-z]+)(?:\s*=\s*|\s+)(.*?)\s*$", line)
    return (matched[1].lower(), matched[2]) if matched else ("", "")


def _without_match(text: str, found: Imported) -> str:
    """The config without its Match blocks, which depend on the machine and the moment."""
    kept, inside = [], False
    for line in text.splitlines():
        keyword, value = _split(line)
        if keyword == "match":
            inside = value.lower() != "all"
            if inside:
                found.remarks.append(f"Match {value}: left out, because it depends on where and when it is read")
            else:
                kept.append("Host *")
            continue
        inside = inside and keyword != "host"
        if not inside:
            kept.append(line)
    return "\n".join(kept)


def _plain_hosts(text: str, found: Imported) -> list[str]:
    """Host names without wildcards, in order; patterns only lend their settings."""
    names: dict[str, None] = {}
    for line in text.splitlines():
        keyword, value = _split(line)
        for name in value.replace('"', "").split() if keyword == "host" else ():
            if re.search(r"[*?!]", name):
                if name != "*":
                    found.remarks.append(f"Host {name}: a pattern; its settings are used, but it names no node")
            else:
                names[name] = None
    return list(names)


def _add_host(config: "SSHConfig", name: str, found: Imported) -> None:
    seen = config.lookup(name)
    if seen.get("proxycommand", "none") != "none":
        found.remarks.append(
            f"{name}: left out, it is reached by a ProxyCommand, which is not supported; use a jump host"
        )
        return
    keys = _identities(seen)
    if len(keys) > 1:
        found.remarks.append(f"{name}: {len(keys)} IdentityFiles; only the first is used, because servers penalise more attempts")
    fields = {
        "host": seen["hostname"],
        "port": _number(seen.get("port"), 22),
        "user": seen.get("user"),
        "key": {"file": keys[0]} if keys else None,
        "known_hosts": _first_file(seen.get("userknownhostsfile"), found, name),
        "jump": _jump(config, seen.get("proxyjump"), name, found),
    }
    _remark_on_trust(seen, name, found)
    found.add(name, {k: v for k, v in fields.items() if (k, v) != ("port", 22)})


def _identities(seen: Any) -> list[str]:
    return [k for k in seen.get("identityfile", []) if k.lower() != "none"]


def _remark_on_trust(seen: Any, name: str, found: Imported) -> None:
    if seen.get("stricthostkeychecking", "ask").lower() in ("no", "off", "accept-new"):
        found.remarks.append(f"{name}: StrictHostKeyChecking is off there; here its host key must be known or pinned")
    if seen.get("hostkeyalias"):
        found.remarks.append(
            f"{name}: HostKeyAlias {seen['hostkeyalias']} is not used; pin host_key if the name differs"
        )


def _first_file(value: str | None, found: Imported, name: str) -> str | None:
    files = (value or "").split()
    if files and files[0] in ("/dev/null", "none"):
        found.remarks.append(f"{name}: UserKnownHostsFile {files[0]} left out; pin host_key or name a known_hosts file")
        return None
    return files[0] if files else None


def _jump(config: "SSHConfig", value: str | None, name: str, found: Imported) -> dict[str, Any] | None:
    """The jump host with its own settings from the same config."""
    if not value or value.lower() == "none":
        return None
    first, *more = value.split(",")
    if more:
        found.remarks.append(f"{name}: a chain of jump hosts ({value}); only the last, {more[-1]}, is used")
        first = more[-1]
    matched = re.fullmatch(r"(?:ssh://)?(?:([^@]+)@)?(\[[^\]]+\]|[^:/]+)(?::(\d+))?/?", first.strip())
    if not matched:
        found.remarks.append(f"{name}: ProxyJump {value} not understood")
        return None
    seen = config.lookup(matched[2].strip("[]"))
    keys = _identities(seen)
    port = _number(matched[3] or seen.get("port"), 22)
    fields = {"host": seen["hostname"], "port": port, "user": matched[1] or seen.get("user")}
    fields |= {
        "key": {"file": keys[0]} if keys else None,
        "known_hosts": _first_file(seen.get("userknownhostsfile"), found, name),
    }
    return {k: v for k, v in fields.items() if v is not None}


def _number(value: Any, default: int) -> int:
    text = str(value if value is not None else default).strip()
    return int(text) if text.isdigit() else default


def from_hosts_yaml(path: Path) -> str:
    """Fleet file text from a hosts YAML (name -> ssh_host, ssh_port, ssh_user, ssh_key …)."""
    from deployments.cli.fleet_hosts import read_hosts

    found = Imported()
    read_hosts(read_text(path), str(path), found)
    return render(found, str(path))
