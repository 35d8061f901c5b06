"""Judges what refuses a log-in behind a right key: the account's rules (PAM), or what stands in the place of our command."""

from collections.abc import Iterator

from runbooks.core.judgment import LIKELY, POSSIBLE, SURE
from runbooks.core.unexplained import HISTORY
from runbooks.core.verdict import Finding
from runbooks.parsers.ssh_text import SshdMessage
from runbooks.ssh.evidence import Auth, AuthorizedKey, FarSide, Stage, Wire
from runbooks.ssh.view import SshView, quote

NO_LOGIN = ("nologin", "false")
MEANT = ("whether that line is the reason: what the program that wrote it says of it",)


def judge_behind_key(v: SshView) -> None:
    """A connection that ends with the key's answer, and a command that does not answer."""
    w = v.wire
    if w is None:
        return
    if w.stage is Stage.AUTH and w.auth is Auth.BROKEN:
        _ended(v, w)
    if w.stage is Stage.COMMAND:
        _command(v, w)


def unexplained(v: SshView) -> tuple[str, ...]:
    """What the server says of this log-in in words that no cause here is known by."""
    return tuple(f"unexplained: {x}" for x in (*_log_says(v), *_server_sends(v)))


def _log_says(v: SshView) -> tuple[str, ...]:
    return tuple(f"sshd's log says: {x}" for x in (v.far.other_lines if v.far else ()))


def _server_sends(v: SshView) -> tuple[str, ...]:
    return tuple(f"the server sends: {x}" for x in (v.wire.auth_heard if v.wire else ()))


def _ended(v: SshView, w: Wire) -> None:
    """OpenSSH ends a connection so, with words for the user, where PAM's account rules refuse after a right key (auth2.c)."""
    line, closed = v.told(SshdMessage.PAM_ACCOUNT), _closed(v, w.auth_heard)
    others, heard = _log_says(v), _server_sends(v)
    if closed:
        v.say("logins-closed", SURE, closed, *heard, *quote(line))
    elif line:
        v.say("pam-refuses-the-account", SURE, *(others or heard), *quote(line), *(heard if others else ()), about=f"account {v.e.user}")
    elif heard and w.banner.startswith("SSH-2.0-OpenSSH"):
        v.say("pam-refuses-the-account", LIKELY, *heard, *others, f"with the answer to the key it ends the connection: {w.auth_says}",
              about=f"account {v.e.user}",
              decides=("sshd's log of that moment: 'Access denied for user … by PAM account configuration'",))  # fmt: skip
    else:
        said = unexplained(v)
        v.say("connection-ends-in-authentication", POSSIBLE if said else LIKELY, *said, w.auth_says, decides=("sshd's log of that moment",))


def _closed(v: SshView, heard: tuple[str, ...]) -> str:
    """That the machine is closed to all but root, where the words that came are those of its nologin file."""
    return _nologin(v, heard) if v.far and v.far.uid != 0 else ""


def root_notes(v: SshView) -> tuple[Finding, ...]:
    """Root is let in past a nologin file, and hears its text all the same: that is no failure."""
    said = _nologin(v, v.wire.auth_heard) if v.far and v.far.uid == 0 and v.wire and v.wire.stage is Stage.DONE else ""
    action = "none: root is let in; others are not until the file is gone"
    return (Finding(priority="LOW", category=HISTORY, issue=said, action=action),) if said else ()


def _nologin(v: SshView, heard: tuple[str, ...]) -> str:
    n = v.far.nologin if v.far else None
    words = " ".join(n.text.split()) if n else ""
    if n is None or not words or words[:60] not in " ".join(" ".join(heard).split()):
        return ""
    return f"{n.path} closes this machine to all but root, and says what was heard: {words[:200]}"


def _command(v: SshView, w: Wire) -> None:
    said, far, user = f"the key is accepted, and then the command ends: {w.command_says}", v.far, f"account {v.e.user}"
    closed, forced, key = _closed(v, (w.command_says,)), far.settings.get("forcecommand", "none") if far else "none", _own_line(v, w)
    shell = () if far and far.shell else (f"not read: the shell of {v.e.user}",)  # one that lets nobody in stands before all of these
    sure = LIKELY if shell else SURE
    if far and far.shell.rpartition("/")[2] in NO_LOGIN:
        v.say("shell-missing", SURE, f"the shell of {v.e.user} is {far.shell}", said, about=user)
    elif closed:
        v.say("logins-closed", SURE, closed, said)
    elif far and forced != "none":
        words = f"ForceCommand {forced} replaces every command"
        v.say("forced-by-the-server", sure, words, said, about=f"sshd on {far.host}", decides=shell)
    elif key:
        words = f"{key[0]} line {key[1].line}: command= replaces every command of this key"
        v.say("forced-by-the-key", sure, words, said, about=key[0], decides=shell)
    elif far and far.shell_in_chroot is False:
        root = far.settings.get("chrootdirectory", "?")
        words = f"ChrootDirectory {root} holds no {far.shell or 'shell of this account'}"
        v.say("chroot-without-shell", sure, words, said, about=f"sshd on {far.host}", decides=shell)
    else:
        gaps, more = tuple(_not_read(v, far)), unexplained(v)
        gaps = gaps or (MEANT if more else ())
        v.say("shell-does-not-answer", LIKELY if gaps else SURE, *more, said, *_excluded(far), decides=gaps)


def _own_line(v: SshView, w: Wire) -> tuple[str, AuthorizedKey] | None:
    """The line that sshd takes for the key that was let in, if a command is forced on it: the first with that key."""
    mine = ((f.path, k) for f in (v.far.files if v.far else ()) if f.by_sshd for k in f.lines if k.fingerprint in w.offered[-1:])
    first = next(mine, None)
    return first if first and "command" in first[1].options else None


def _not_read(v: SshView, far: FarSide | None) -> Iterator[str]:
    """What may stand in the place of the command, and was not read."""
    if far is None:
        yield "not read, no second way in: the shell, command= in authorized_keys, ForceCommand, ChrootDirectory, /etc/nologin"
        return
    if not far.shell:
        yield f"not read: the shell of {v.e.user}"
    if not far.settings:
        yield "not read: ForceCommand and ChrootDirectory (sshd -T)"
    elif far.settings.get("chrootdirectory", "none") != "none" and far.shell_in_chroot is None:
        yield f"not read: whether ChrootDirectory {far.settings['chrootdirectory']} holds {far.shell}"
    if v.key and v.key.certificate:
        yield "not read: force-command in the certificate (ssh-keygen -L)"
    if not any(f.by_sshd and f.lines for f in far.files) and not (v.key and v.key.certificate):
        yield "not read: the line of this key, with command= or without"


def _excluded(far: FarSide | None) -> tuple[str, ...]:
    """What was read and does not stand in the place of the command."""
    if far is None or not far.settings:
        return ()
    return (f"no ForceCommand, no command= on the key, no ChrootDirectory without a shell; the shell is {far.shell}",)
