"""The one log-in of a run: methods offered, key, session, a command that answers. Each key is offered once."""

import threading
from contextlib import closing, suppress
from typing import Any

import paramiko

from runbooks.core.fleet import Node
from runbooks.parsers.ssh_key import fingerprint
from runbooks.ssh.evidence import Auth, Stage, Wire
from tasks.ssh.attempts import Memory
from tasks.transport.base import KeyRefusedError

MARK = "gpu-runbooks-answers"
MOST_KEYS = 6  # a server's default MaxAuthTries


class LogInTransport(paramiko.Transport):
    """Keeps the words with which the server ended the connection."""

    ended = ""

    def _parse_disconnect(self, m: paramiko.Message) -> None:
        m.get_int()
        self.ended = m.get_text()


def ended_with(transport: paramiko.Transport) -> str:
    """The server's words, "" where it said none."""
    return getattr(transport, "ended", "")


def log_in(
    node: Node, wire: Wire, memory: Memory, keys: tuple[paramiko.PKey, ...], transport: paramiko.Transport
) -> Wire:
    """From the list of methods to the answering command."""
    wire = _methods(wire, transport)
    if wire.auth is Auth.ACCEPTED:
        return _session(wire, transport, node.connect_timeout_s)
    if wire.stage is not Stage.AUTH or not keys:
        return wire
    asked = _asked(wire, keys)
    if asked in memory.attempts:
        return _remembered(wire, memory.attempts[asked])
    wire = _offer(wire, transport, keys)
    if wire.auth is Auth.ACCEPTED:
        wire = _session(wire, transport, node.connect_timeout_s)
    memory.attempts[asked] = wire
    return wire


def recall(wire: Wire, memory: Memory, keys: tuple[paramiko.PKey, ...], refused: KeyRefusedError) -> None:
    """The run has offered these keys already, on a connection of its own: they are not offered again. An agent's are all of them."""
    prints = tuple(fingerprint(k.asbytes()) for k in keys)
    if refused.fingerprint in ("", *prints[:1]):
        heard = {"stage": Stage.AUTH, "auth": Auth.REFUSED, "auth_says": refused.says, "offered": prints}
        memory.attempts.setdefault(_asked(wire, keys), wire.model_copy(update=heard))


def _asked(wire: Wire, keys: tuple[paramiko.PKey, ...]) -> str:
    return "|".join([wire.user, wire.host, str(wire.port), *(fingerprint(k.asbytes()) for k in keys)])


def _remembered(wire: Wire, earlier: Wire) -> Wire:
    kept = ("stage", "auth", "auth_says", "auth_heard", "offered", "session_says", "command_says")
    return wire.model_copy(update={name: getattr(earlier, name) for name in kept} | {"remembered": True})


def _methods(wire: Wire, transport: paramiko.Transport) -> Wire:
    """Asks with method `none`, which servers do not count as a try."""
    try:
        transport.auth_none(wire.user)
        return wire.model_copy(
            update={"auth": Auth.ACCEPTED, "auth_says": "let in without any key", "stage": Stage.SESSION}
        )
    except paramiko.BadAuthenticationType as e:
        methods = tuple(e.allowed_types)
    except (paramiko.SSHException, EOFError, OSError) as e:
        says = ended_with(transport) or str(e) or type(e).__name__
        return wire.model_copy(update={"auth": Auth.BROKEN, "auth_says": says, "auth_heard": _heard(transport)})
    known: Any = getattr(transport, "server_extensions", {})
    with suppress(AttributeError):
        raw = known.get("server-sig-algs", b"")
        wire = wire.model_copy(update={"signatures": tuple(n for n in raw.decode("ascii", "replace").split(",") if n)})
    stage = Stage.AUTH if "publickey" in methods else Stage.METHODS
    return wire.model_copy(update={"methods": methods, "stage": stage})


def _offer(wire: Wire, transport: paramiko.Transport, keys: tuple[paramiko.PKey, ...]) -> Wire:
    offered: list[str] = []
    for key in keys[:MOST_KEYS]:
        offered.append(fingerprint(key.asbytes()))
        auth, says = _one(transport, wire.user, key)
        heard = _heard(transport)
        if auth is Auth.TOO_MANY and "oo many" not in says and (heard or len(offered) == 1):
            auth = Auth.BROKEN  # one key is not too many
        wire = wire.model_copy(update={"auth": auth, "auth_says": says, "auth_heard": heard, "offered": tuple(offered)})
        if auth is not Auth.REFUSED:
            break
    return wire.model_copy(update={"stage": Stage.SESSION}) if wire.auth is Auth.ACCEPTED else wire


def _one(transport: paramiko.Transport, user: str, key: paramiko.PKey) -> tuple[Auth, str]:
    try:
        more = transport.auth_publickey(user, key)
    except paramiko.BadAuthenticationType as e:
        return Auth.REFUSED, f"it allows {', '.join(e.allowed_types)}"
    except paramiko.AuthenticationException as e:
        text = str(e) or type(e).__name__
        if not transport.is_active():
            return Auth.TOO_MANY, f"the server ended the connection: {ended_with(transport) or text}"
        return Auth.REFUSED, text
    except (paramiko.SSHException, EOFError, OSError) as e:
        text = str(e) or type(e).__name__
        return (Auth.TOO_MANY if "oo many" in text else Auth.BROKEN), text
    return (Auth.PARTIAL, f"the key is right; {', '.join(more)} is wanted as well") if more else (Auth.ACCEPTED, "")


def _heard(transport: paramiko.Transport) -> tuple[str, ...]:
    """What the server sent for a person to read (RFC 4252, 5.4) with its answer to the last request."""
    sent = getattr(transport.auth_handler, "banner", None) or b""
    text = sent.decode("utf-8", "replace") if isinstance(sent, bytes) else str(sent)
    return tuple("".join(filter(str.isprintable, " ".join(line.split())))[:300] for line in text.splitlines() if line.strip())[-5:]


def _session(wire: Wire, transport: paramiko.Transport, timeout_s: float) -> Wire:
    try:
        channel = transport.open_session(timeout=timeout_s)
    except paramiko.ChannelException as e:
        return wire.model_copy(update={"stage": Stage.SESSION, "session_says": f"no session channel: {e.text}"})
    except (paramiko.SSHException, EOFError, OSError) as e:
        return wire.model_copy(update={"stage": Stage.SESSION, "session_says": str(e) or type(e).__name__})
    with closing(channel):
        return _answer(wire, channel, timeout_s)


def _answer(wire: Wire, channel: paramiko.Channel, timeout_s: float) -> Wire:
    channel.settimeout(timeout_s)
    watch = threading.Timer(3 * timeout_s, channel.close)  # paramiko waits for ever for the server's word on a command
    watch.daemon = True
    watch.start()
    try:
        channel.exec_command(f"echo {MARK}")
        heard = channel.makefile("rb").read(4096).decode("utf-8", "replace")
        said = channel.makefile_stderr("rb").read(4096).decode("utf-8", "replace")
        ended = channel.status_event.wait(timeout_s)  # a server may end the output and never say how the command ended
        code = str(channel.recv_exit_status()) if ended else "not told"
    except TimeoutError:
        return wire.model_copy(update={"stage": Stage.COMMAND, "command_says": f"no answer within {timeout_s:g} s"})
    except (paramiko.SSHException, EOFError, OSError) as e:
        return wire.model_copy(update={"stage": Stage.COMMAND, "command_says": str(e) or type(e).__name__})
    finally:
        watch.cancel()
    if MARK in heard.split():
        return wire.model_copy(update={"stage": Stage.DONE})
    words = " ".join((heard + " " + said).split())[:200] or "no output"
    return wire.model_copy(update={"stage": Stage.COMMAND, "command_says": f"exit {code}: {words}"})
