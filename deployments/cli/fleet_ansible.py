"""Reads an Ansible inventory, INI or YAML. Variables in other files, and those that are computed, are not read."""

import itertools
import re
import shlex
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from deployments.cli.ansible_groups import Groups
from deployments.errors import CommandError
from runbooks.core.config import ConfigError, loader_of, yaml_data
from runbooks.core.config_errors import kind
from runbooks.core.whole_number import whole_number

if TYPE_CHECKING:
    from deployments.cli.imported import Imported

MOST = 20_000  # machines of an inventory; more is a mistyped range
SHOWN = 5  # hosts that a remark names
NONE = "not an Ansible inventory"
FIELDS = {  # of two that are given, Ansible takes the last
    "host": ("ansible_host", "ansible_ssh_host"),
    "port": ("ansible_port", "ansible_ssh_port"),
    "user": ("ansible_user", "ansible_ssh_user"),
    "key": ("ansible_private_key_file", "ansible_ssh_private_key_file"),
}
_USED = {variable for variables in FIELDS.values() for variable in variables}
_BY_SSH = ("ssh", "smart", "paramiko", "paramiko_ssh", "ansible.builtin.ssh", "ansible.builtin.paramiko_ssh")
_FIXES = {
    "hosts": "write each name on a line of its own with `:` behind it, or give the output of `ansible-inventory --list --yaml`",
    "children": "write each name on a line of its own with `:` behind it",
    "vars": "write `NAME: VALUE` lines",
}
_HEAD = re.compile(r"\[([^:\]]+)(?::(\w+))?\]\s*(?:[#;].*)?")
_RANGE = re.compile(r"\[(\w+):(\w+)(?::(\w+))?\]")
_WITH_PORT = re.compile(r"([^:\s]+|\[[0-9A-Fa-f:.]+\]):([0-9]{1,5})")


class Vaulted:
    """A value that Ansible Vault has encrypted."""


def _vaulted(_text: str) -> Vaulted:
    return Vaulted()


LOADER = loader_of({"!vault": _vaulted, "!vault-encrypted": _vaulted, "!unsafe": str})
VAULT = "$ANSIBLE_VAULT;"


def read_ansible(text: str, found: "Imported") -> None:
    """Add every host of the inventory. Raises CommandError."""
    if text.lstrip().startswith(VAULT):
        raise CommandError("the whole file is encrypted with Ansible Vault; import what `ansible-vault view FILE` prints")
    groups = Groups()
    if _is_yaml(text):
        _read_yaml(text, groups, found)
    else:
        _read_ini(text, groups, found)
    try:
        hosts = groups.hosts()
    except ValueError as e:
        raise CommandError(f"{NONE}: {e}") from e
    left: dict[str, list[str]] = {}
    for name, variables in hosts:
        _add(name, variables, found, left)
    for why, names in left.items():
        more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        found.say(f"{why} ({', '.join(names[:SHOWN])}{more})")
    found.say("group_vars and host_vars are in other files and were not read")


def _is_yaml(text: str) -> bool:
    """By its first line that says something: no line of an INI inventory begins so."""
    first = next((line for line in map(str.strip, text.splitlines()) if line and line[0] not in "#;"), "")
    return first.startswith(("{", "---", "%")) or bool(re.match(r"""(["']?)[\w.-]+\1:(\s|$)""", first))


def _add(name: str, variables: Mapping[str, Any], found: "Imported", left: dict[str, list[str]]) -> None:
    usable: dict[str, Any] = {}
    for variable, value in variables.items():
        if why := _why_left(variable, value):
            left.setdefault(f"{variable} left out: {why}", []).append(name)
        elif variable in _USED and value not in (None, ""):
            usable[variable] = value
    fields: dict[str, Any] = {"host": name}
    for field, aliases in FIELDS.items():
        given = [a for a in aliases if a in usable]
        if given:
            fields[field] = usable[given[-1]] if field == "port" else str(usable[given[-1]])
        if len(given) > 1 and usable[given[0]] != usable[given[1]]:
            left.setdefault(f"{given[0]} left out: {given[1]} goes before it", []).append(name)
    key = fields.pop("key", None)
    found.add(name, fields | {"port": found.port(name, fields.get("port")), "key": {"file": key} if key else None})


def _why_left(variable: str, value: Any) -> str:
    """Why the fleet file cannot have it; "" for what it has, and for what only playbooks use."""
    if isinstance(value, Vaulted):
        return "it is encrypted with Ansible Vault"
    if not variable.startswith("ansible_") or value is None:
        return ""
    if not isinstance(value, str | int) or isinstance(value, bool):
        return f"it is {kind(value)}" if variable in _USED else "a node of the fleet file has no such setting"
    if isinstance(value, str) and "{{" in value:
        return "it is computed"
    if variable in _USED or (variable == "ansible_connection" and value in _BY_SSH):
        return ""
    if variable == "ansible_connection":
        return "write `local: true` where it is this machine" if value == "local" else "nodes are reached by SSH"
    if "pass" in variable:
        return "log-ins are by key"
    if variable.endswith("_args"):
        return "if it names a jump host, write that as `jump`"
    return "a node of the fleet file has no such setting"


def _read_ini(text: str, groups: Groups, found: "Imported") -> None:
    group, what = "ungrouped", "hosts"
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if not line or line[0] in "#;":
            continue
        if head := _HEAD.fullmatch(line):
            group, what = head[1], head[2] or "hosts"
            if what not in _FIXES:
                found.say(f"line {number}: [{group}:{what}] left out: there are [{group}], [{group}:vars] and [{group}:children]")
            continue
        try:
            words = shlex.split(line, comments=True)
        except ValueError as e:
            found.say(f"line {number} left out: {e}")
            continue
        if what == "vars":
            name, _, value = line.partition("=")
            groups.shared.setdefault(group, {})[name.strip()] = value.strip().strip("'\"")
        elif what == "children" and words:
            groups.contain(group, words[0])
        elif what == "hosts" and words:
            _add_hosts(words[0], dict(w.partition("=")[::2] for w in words[1:] if "=" in w), group, groups)


def _read_yaml(text: str, groups: Groups, found: "Imported") -> None:
    try:
        data = yaml_data(text, NONE, LOADER)
    except ConfigError as e:
        raise CommandError(str(e)) from e
    todo = [(str(name), body, str(name)) for name, body in _mapping(data, "the file", "it starts with a group, `all:`").items()]
    for name, body, place in todo:  # grows while it is walked
        group = _mapping(body, place, "write `hosts:`, `vars:` or `children:` below it")
        parts = {part: _section(group.get(part), part, place) for part in _FIXES}
        if strange := [str(k) for k in group if k not in _FIXES]:
            found.say(f"{place}: {', '.join(strange)} left out: a group has hosts, vars and children")
        groups.shared.setdefault(name, {}).update({str(k): v for k, v in parts["vars"].items()})
        for pattern, own in parts["hosts"].items():
            where = f"{place}.hosts.{pattern}"
            variables = _mapping(own, where, "write its variables as `NAME: VALUE` lines below it, or nothing")
            _add_hosts(str(pattern), {str(k): v for k, v in variables.items()}, name, groups)
        for child, below in parts["children"].items():
            groups.contain(name, str(child))
            todo.append((str(child), below, f"{place}.children.{child}"))


def _section(value: Any, part: str, place: str) -> Mapping[Any, Any]:
    """A group's hosts, vars or children; one name alone stands for a mapping with that name."""
    return {value: None} if isinstance(value, str) and part != "vars" else _mapping(value, f"{place}.{part}", _FIXES[part])


def _mapping(value: Any, place: str, fix: str) -> Mapping[Any, Any]:
    if value is None or isinstance(value, Mapping):
        return value or {}
    raise CommandError(f"{NONE}: {place[:200]}: expected a mapping, found {kind(value)}; {fix}")


def _add_hosts(pattern: str, own: dict[str, Any], group: str, groups: Groups) -> None:
    for text in itertools.islice(_ranges(pattern), MOST + 1):
        matched = _WITH_PORT.fullmatch(text)
        name, port = (matched[1].strip("[]"), {"ansible_port": matched[2]}) if matched else (text, {})
        groups.add(group, name, port | own)
        if len(groups.own) > MOST:
            raise CommandError(f"{NONE}: more than {MOST} machines; is a range mistyped?")


def _ranges(pattern: str) -> Iterator[str]:
    """Every name that the pattern stands for: node[01:03] is node01, node02, node03."""
    matched = _RANGE.search(pattern)
    if not matched:
        yield pattern
        return
    first, last, step = whole_number(matched[1]), whole_number(matched[2]), whole_number(matched[3] or 1) or 1
    if first is not None and last is not None:
        parts = (str(n).zfill(len(matched[1])) for n in range(first, last + 1, step))
    else:
        parts = (chr(c) for c in range(ord(matched[1][0]), ord(matched[2][0]) + 1, step))
    for part in parts:
        yield from _ranges(pattern[: matched.start()] + part + pattern[matched.end() :])
