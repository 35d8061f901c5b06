"""Reads the server's side of a log-in through another way in. Changes nothing."""

import getpass
from collections.abc import Sequence
from typing import Any

from runbooks.core.fleet import Node, SecondWay
from runbooks.core.reading import Absent, Known, Source, Unknown
from runbooks.parsers.ssh_text import LogLine, other_lines, parse_accepted, parse_settings, parse_sshd_log
from runbooks.ssh.evidence import AuthorizedKey, FarSide, KeysFile, Nologin, PathEntry, Stage, Wire
from tasks.context import Context
from tasks.diagnostic import diagnostic
from tasks.remote.probe import run_probe
from tasks.ssh.attempts import Memory
from tasks.transport.base import CommandResult, Host, TransportError

PROBE = "ssh_far_side"
BEFORE_S = 600.0  # a sweep has looked at the log-in by then
KEPT = [
    "strictmodes",
    "authorizedkeysfile",
    "pubkeyauthentication",
    "permitrootlogin",
    "usepam",
    "allowusers",
    "denyusers",
    "allowgroups",
    "denygroups",
    "pubkeyacceptedalgorithms",
    "maxauthtries",
    "maxsessions",
    "maxstartups",
    "persourcepenalties",
    "persourcepenaltyexemptlist",
    "trustedusercakeys",
    "authenticationmethods",
    "authorizedkeyscommand",
    "forcecommand",
    "chrootdirectory",
]


class BehindPrefix:
    """A host whose commands run behind a prefix (`docker exec -i NAME`) on another one."""

    def __init__(self, inner: Host, prefix: Sequence[str], name: str) -> None:
        self._inner, self._prefix, self._name = inner, tuple(prefix), name

    @property
    def name(self) -> str:
        """The node that is reached."""
        return self._name

    @property
    def notes(self) -> tuple[str, ...]:
        """The inner connection's facts."""
        return self._inner.notes

    def run(
        self, argv: Sequence[str], *, stdin: str | None = None, timeout_s: float = 20.0, limit_bytes: int = 1 << 20
    ) -> CommandResult:
        """Run it there, behind the prefix."""
        return self._inner.run((*self._prefix, *argv), stdin=stdin, timeout_s=timeout_s, limit_bytes=limit_bytes)

    def close(self) -> None:
        """The inner host is closed by the run."""


def other_way(context: Context, node: Node) -> Host | None:
    """The node's second way in; None: the fleet file names none."""
    way: SecondWay | None = node.second_way
    if way is None:
        return None
    return BehindPrefix(context.open_host(context.fleet.node(way.node)), way.prefix, node.name)


def log_position(context: Context, node: Node) -> dict[str, Any] | None:
    """Where sshd's log ends now, so that only what follows is read later."""
    host = other_way(context, node)
    if host is None:
        return None
    try:
        place = run_probe(host, PROBE, _ask(node) | {"position_only": True}).get("log")
        return place if isinstance(place, dict) else None
    except TransportError:
        return None


def log_before(context: Context, node: Node) -> dict[str, Any] | None:
    """Where sshd's log ended before the first log-in of a sweep, which asks before it looks at the node; else where it ends now."""
    if context.shared is None:
        return log_position(context, node)
    name = f"end of sshd's log on {node.name}"
    return context.shared.get(name, context.now, BEFORE_S, lambda: log_position(context, node), lambda _: True)


def _ask(node: Node) -> dict[str, Any]:
    return {"user": node.user or "root", "port": node.port, "client": "127.0.0.1"}


@diagnostic("sshd on its own side · {node.name}")
def read_far_side(
    context: Context, node: Node, wire: Wire | None, since: dict[str, Any] | None, memory: Memory
) -> Known[FarSide] | Absent | Unknown:
    """Account, path, settings, authorized_keys and sshd's own words since `since`."""
    host = other_way(context, node)
    if host is None or node.second_way is None:
        return Absent(proof="the fleet file names no second way into this node")
    way = " ".join((f"on {node.second_way.node}:", *node.second_way.prefix)).rstrip(":")
    source = Source(command=f"python3 - (probe {PROBE}) {way}", host=node.second_way.node, taken_at=context.now())
    try:
        got = run_probe(host, PROBE, _ask(node) | {"log_from": since})
    except TransportError as e:
        return Unknown(reason=e.reason, detail=e.detail, source=source)
    text = context.redactor.text(str(got.get("log_text", "")))
    whole = wire is not None and wire.stage is Stage.DONE  # nothing failed that such a line could explain
    said = (parse_sshd_log(text), () if whole else other_lines(text, node.user or getpass.getuser(), *_client(wire)))
    if wire is not None and wire.remembered:
        said = memory.log.get(node.name, said)
    memory.log[node.name] = said
    return Known(value=_far(got, way, node, *said), source=source)


def _client(wire: Wire | None) -> tuple[str, tuple[str, ...]]:
    """The address and the keys by which sshd's log names this log-in."""
    return (wire.own_address, wire.offered) if wire is not None else ("", ())


def _far(got: dict[str, Any], way: str, node: Node, lines: tuple[LogLine, ...], others: tuple[str, ...]) -> FarSide:
    who = got.get("user") or {}
    text = str(got.get("settings") or "")
    kept = {k: v for k, v in parse_settings(text).items() if k in KEPT} if text.strip() else {}
    return FarSide(
        way=way,
        host=node.name,
        sshd_runs=bool(got.get("sshd_runs")),
        user_exists=bool(who),
        uid=who.get("uid", -1),
        gid=who.get("gid", -1),
        groups=tuple(who["groups"]) if "groups" in who else None,
        home=who.get("home", ""),
        shell=who.get("shell", ""),
        shell_exists=bool(got.get("shell_exists", True)),
        locked=got.get("locked"),
        path=tuple(PathEntry(**p) for p in got.get("path", ())),
        settings=kept,
        settings_say=str(got.get("settings_say") or ""),
        files=tuple(_keys_file(f) for f in got.get("files", ())),
        log=lines,
        other_lines=others,
        shell_in_chroot=got.get("shell_in_chroot"),
        nologin=Nologin(**got["nologin"]) if got.get("nologin") else None,
        accepted=parse_accepted("\n".join(got.get("accepted", ())))[-50:],
        log_source=str((got.get("log") or {}).get("path") or "journal"),
    )


def _keys_file(f: dict[str, Any]) -> KeysFile:
    entry = PathEntry(**f["entry"]) if f.get("entry") else None
    lines = tuple(AuthorizedKey(**k) for k in f["keys"])
    return KeysFile(path=f["path"], exists=f["exists"], entry=entry, leads_to=f.get("leads_to", ""), lines=lines,
                    by_sshd=f.get("by_sshd", True))  # fmt: skip
