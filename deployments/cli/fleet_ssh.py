"""Reads an ssh config: one node per plain Host name. Include is followed; the rest is told."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deployments.cli.imported import Imported, read_text
from deployments.errors import CommandError
from deployments.paths import home

if TYPE_CHECKING:
    from paramiko.config import SSHConfig

_MAX_FILES = 64
_LONGEST = 1000  # characters of a line; a longer one is no setting that a node has
_USED = ("host", "hostname", "user", "port", "identityfile", "userknownhostsfile", "proxyjump")
_TOLD = ("proxycommand", "stricthostkeychecking", "hostkeyalias", "match")  # each with its own remark


def read_ssh_config(path: Path, found: Imported) -> None:
    """Add every node of the config. Raises CommandError."""
    from paramiko.config import SSHConfig
    from paramiko.ssh_exception import ConfigParseError

    lines = _with_includes(home(path), home(path).parent, found, [])
    kept = _without_unused(_without_match(lines, found), found)
    try:
        config = SSHConfig.from_text("\n".join(kept))
    except (ConfigParseError, ValueError, IndexError) as e:
        raise CommandError(f"{path}: not an ssh config: {e}") from e
    for name in _plain_hosts(kept, found):
        _add_host(config, name, found)


def _with_includes(path: Path, base: Path, found: Imported, seen: list[Path]) -> list[str]:
    """The config's lines with included files in place of their Include lines."""
    if path in seen or len(seen) >= _MAX_FILES:
        found.say(f"Include of {path} not followed: it includes itself, or there are too many")
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
    wanted = home(re.sub(r"\*{2,}", "*", pattern))  # to ssh, `**` is `*`
    root, rest = (Path(wanted.anchor), wanted.relative_to(wanted.anchor)) if wanted.is_absolute() else (base, wanted)
    try:
        files = sorted(p for p in root.glob(str(rest)) if p.is_file())
    except (OSError, ValueError, IndexError):  # no pattern, or none that can be a path
        files = []
    if not files:
        found.say(f"Include {pattern}: no such file")
    return files


def _split(line: str) -> tuple[str, str]:
    """Keyword in small letters and the value of a config line."""
    matched = re.fullmatch(r"(\w+)(?:\s*=\s*|\s+)(.+)", line.strip())
    return (matched[1].lower(), matched[2]) if matched else ("", "")


def _without_match(lines: list[str], found: Imported) -> list[str]:
    """The config without its Match blocks, which depend on the machine and the moment."""
    kept, inside = [], False
    for line in lines:
        keyword, value = _split(line)
        if keyword == "match":
            inside = value.lower() != "all"
            if inside:
                found.say(f"Match {value}: left out, because it depends on where and when it is read")
            else:
                kept.append("Host *")
            continue
        inside = inside and keyword != "host"
        if not inside:
            kept.append(line)
    return kept


def _without_unused(lines: list[str], found: Imported) -> list[str]:
    """The lines that say something of a node. Each keyword that says nothing of one is told once."""
    kept: list[str] = []
    told: set[str] = set()
    for line in lines:
        keyword, _ = _split(line)
        if len(line) > _LONGEST:
            found.say(f"a line of {len(line)} characters left out: {line}")
        elif not keyword or keyword in _USED or keyword in _TOLD:
            kept.append(line)
        elif keyword not in told:
            told.add(keyword)
            found.say(f"{line.strip()[: len(keyword)]} left out: a node of the fleet file has no such setting")
    return kept


def _plain_hosts(lines: list[str], found: Imported) -> list[str]:
    """Host names without wildcards, in order; patterns only lend their settings."""
    names: dict[str, None] = {}
    for line in lines:
        keyword, value = _split(line)
        for name in value.replace('"', "").split() if keyword == "host" else ():
            if re.search(r"[*?!]", name):
                if name != "*":
                    found.say(f"Host {name}: a pattern; its settings are used, but it names no node")
            else:
                names[name] = None
    return list(names)


def _add_host(config: "SSHConfig", name: str, found: Imported) -> None:
    seen = config.lookup(name)
    if seen.get("proxycommand"):  # paramiko reads `none` as None
        found.say(f"{name}: left out, it is reached by a ProxyCommand, which is not supported; use a jump host")
        return
    keys = _identities(seen)
    if len(keys) > 1:
        found.say(f"{name}: {len(keys)} IdentityFiles; only the first is used, because servers penalise more attempts")
    fields = {
        "host": seen["hostname"],
        "port": found.port(name, seen.get("port")),
        "user": seen.get("user"),
        "key": {"file": keys[0]} if keys else None,
        "known_hosts": _first_file(seen.get("userknownhostsfile"), found, name),
        "jump": _jump(config, seen.get("proxyjump"), name, found),
    }
    _remark_on_trust(seen, name, found)
    found.add(name, fields)


def _identities(seen: Any) -> list[str]:
    return [k for k in seen.get("identityfile", []) if k.lower() != "none"]


def _remark_on_trust(seen: Any, name: str, found: Imported) -> None:
    if seen.get("stricthostkeychecking", "ask").lower() in ("no", "off", "accept-new"):
        found.say(f"{name}: StrictHostKeyChecking is off there; here its host key must be known or pinned")
    if seen.get("hostkeyalias"):
        found.say(f"{name}: HostKeyAlias {seen['hostkeyalias']} is not used; pin host_key if the name differs")


def _first_file(value: str | None, found: Imported, name: str) -> str | None:
    files = (value or "").split()
    if files and files[0] in ("/dev/null", "none"):
        found.say(f"{name}: UserKnownHostsFile {files[0]} left out; pin host_key or name a known_hosts file")
        return None
    if len(files) > 1:
        found.say(f"{name}: {len(files)} files in UserKnownHostsFile; only the first is used")
    return files[0] if files else None


def _jump(config: "SSHConfig", value: str | None, name: str, found: Imported) -> dict[str, Any] | None:
    """The jump host with its own settings from the same config."""
    if not value or value.lower() == "none":
        return None
    first, *more = value.split(",")
    if more:
        found.say(f"{name}: a chain of jump hosts ({value}); only the last, {more[-1]}, is used")
        first = more[-1]
    matched = re.fullmatch(r"(?:ssh://)?(?:([^@]+)@)?(\[[^\]]+\]|[^:/]+)(?::(\d+))?/?", first.strip())
    if not matched:
        found.say(f"{name}: ProxyJump {value} not understood")
        return None
    seen = config.lookup(matched[2].strip("[]"))
    keys = _identities(seen)
    port = found.port(f"{name}: ProxyJump", matched[3] or seen.get("port"))
    fields = {"host": seen["hostname"], "port": port, "user": matched[1] or seen.get("user")}
    fields |= {
        "key": {"file": keys[0]} if keys else None,
        "known_hosts": _first_file(seen.get("userknownhostsfile"), found, name),
    }
    return {k: v for k, v in fields.items() if v is not None}
