"""Reads a hosts YAML of unknown making: a mapping or list of hosts under one of several usual names."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from deployments.errors import CommandError
from runbooks.core.config import ConfigError, yaml_data
from runbooks.core.config_errors import kind
from runbooks.core.whole_number import whole_number

if TYPE_CHECKING:
    from deployments.cli.imported import Imported

_ALIASES = {
    "host": (
        "ssh_host",
        "tailscale_ip",
        "hostname",
        "host",
        "address",
        "addr",
        "ip",
        "ip_address",
        "ansible_host",
        "public_ip",
    ),
    "port": ("ssh_port", "port", "ansible_port"),
    "user": ("ssh_user", "user", "username", "ansible_user", "login"),
    "key": ("ssh_key", "key", "key_file", "key_path", "identity_file", "ssh_key_path", "ansible_ssh_private_key_file"),
    "known_hosts": ("known_hosts", "known_hosts_file"),
    "host_key": ("host_key",),
    "name": ("name", "id", "node_id"),
}
_UNDER = ("hosts", "nodes", "machines", "workers", "servers")
_SECRETS = ("password", "ssh_password", "ssh_pass", "ansible_password", "token", "api_key")
_LABELS = ("role", "gpu", "gpu_type", "provider", "region", "group", "status", "zone", "cluster")
_OFF = ("offline", "disabled", "retired", "terminated", "stopped", "archived")
_USED = {a for names in _ALIASES.values() for a in names} | {*_LABELS, *_SECRETS, "enabled", "disabled"}


def read_hosts(text: str, origin: str, found: "Imported") -> None:
    """Add every host of the YAML text. Raises CommandError if it is no such file."""
    try:
        data = yaml_data(text, origin)
    except ConfigError as e:
        raise CommandError(str(e)) from e
    hosts = list(_entries(data, found))
    if not hosts:
        raise CommandError(f"{origin}: expected a mapping name -> {{ssh_host: …}}, perhaps under {', '.join(_UNDER)}")
    for name, fields in hosts:
        _add(name, fields, found)


def _entries(data: Any, found: "Imported") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(name, fields) of every host, wherever the usual places put them."""
    if isinstance(data, Mapping):
        for under in _UNDER:
            if isinstance(data.get(under), (Mapping, list)):
                if beside := [str(k) for k in data if k != under]:
                    found.say(f"beside {under}, not read: {', '.join(beside)}")
                yield from _entries(data[under], found)
                return
        for name, fields in data.items():
            if isinstance(fields, Mapping):
                yield str(name), fields
            elif isinstance(fields, str) and "@" in fields:
                user, _, host = fields.partition("@")
                yield str(name), {"user": user, "host": host}
            else:
                found.say(f"{name}: left out: expected a mapping or user@host, found {kind(fields)}")
    elif isinstance(data, list):
        for number, fields in enumerate(data, 1):
            if isinstance(fields, Mapping):
                yield str(_pick(fields, "name") or _pick(fields, "host") or "node"), fields
            else:
                found.say(f"entry {number}: left out: expected a mapping, found {kind(fields)}")


def _pick(fields: Mapping[str, Any], what: str) -> Any:
    """The first alias that is there and not empty."""
    return next((fields[a] for a in _ALIASES[what] if fields.get(a) not in (None, "")), None)


def _add(name: str, fields: Mapping[str, Any], found: "Imported") -> None:
    odd = {k: kind(v) for k, v in fields.items() if k in _USED and isinstance(v, (list, Mapping))}
    if odd:
        found.say(f"{name}: left out: " + ", ".join(f"{k} is {what}" for k, what in odd.items()))
    fields = {k: v for k, v in fields.items() if k not in odd}
    host = _pick(fields, "host")
    if not isinstance(host, (str, int, float)):
        found.say(f"{name}: left out: it has no host (looked for {', '.join(_ALIASES['host'])})")
        return
    user, host, port = _address(str(host), _pick(fields, "user"), _pick(fields, "port"))
    key = _key(name, _pick(fields, "key"), found)
    node = {"host": host, "port": found.port(name, port), "user": user, "key": key}
    node |= {"known_hosts": _text(_pick(fields, "known_hosts")), "host_key": _text(_pick(fields, "host_key"))}
    labels = {k: str(fields[k]) for k in _LABELS if isinstance(fields.get(k), (str, int, float))}
    node["labels"] = labels
    node |= _hands_off(fields)
    _remark(name, fields, found)
    found.add(name, node)


def _address(host: str, user: Any, port: Any) -> tuple[str | None, str, Any]:
    """Takes `user@host:port` apart where it stands in one field."""
    before, at, after = host.rpartition("@")
    head, colon, tail = after.rpartition(":")
    if colon and whole_number(tail) is not None and ":" not in head:
        after, port = head, port or tail
    return str(user or before or "") if user or at else None, after, port


def _key(name: str, key: Any, found: "Imported") -> dict[str, Any] | None:
    if key is None:
        return None
    if "PRIVATE KEY" in str(key):
        found.say(f"{name}: its private key is in that file and is left out; name a key file or variable")
        return None
    return {"file": str(key)}


def _hands_off(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Nodes that the file calls off are kept, but nothing may act on them."""
    status = str(fields.get("status", "")).lower()
    if fields.get("enabled") is False or fields.get("disabled") is True or status in _OFF:
        return {"hands_off": True, "reason": f"the hosts file says {status or 'disabled'}"}
    return {}


def _remark(name: str, fields: Mapping[str, Any], found: "Imported") -> None:
    if secret := [k for k in _SECRETS if k in fields]:
        found.say(f"{name}: {', '.join(secret)} left out; only keys are used")
    if rest := sorted(str(k) for k in fields if k not in _USED):
        found.say(f"{name}: fields not carried over: {', '.join(rest)}")


def _text(value: Any) -> str | None:
    return str(value) if value is not None else None
