"""Text of SSH's own tools: `sshd -T`, `ssh -G`, and sshd's log. Pure.

A parser of its own, beside the knowledge base that judges the same lines: the runbook compares the user or path in the line
with the one at hand. A test holds that both say the same.
"""

import re
from enum import StrEnum

from runbooks.core.base import Frozen

LONGEST = 300  # characters of a line that are kept
MOST_OTHER = 10
MULTIPLE = ("hostkey", "identityfile", "allowusers", "denyusers", "allowgroups", "denygroups", "port", "listenaddress")


def parse_settings(text: str) -> dict[str, str]:
    """`key value` lines of `sshd -T` or `ssh -G`; keys in small letters, keys given twice joined by a blank.

    Raises ValueError when there is none."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        key, _, value = line.strip().partition(" ")
        if not key.isalnum():
            continue
        key = key.lower()
        found[key] = f"{found[key]} {value}" if key in found and key in MULTIPLE else value
    if not found:
        raise ValueError("no setting in the output")
    return found


class SshdMessage(StrEnum):
    """What a line of sshd's log says."""

    STRICT_MODES = "strict-modes"
    UNREADABLE_KEYS = "unreadable-keys"
    LOCKED = "locked"
    NO_SHELL = "no-shell"
    NO_USER = "no-user"
    NOT_ALLOWED = "not-allowed"
    ROOT_REFUSED = "root-refused"
    ALGORITHM = "algorithm"
    CERTIFICATE = "certificate"
    TOO_MANY = "too-many"
    FROM = "from"
    FAILED_KEY = "failed-key"
    NO_SESSION = "no-session"
    PENALTY = "penalty"
    MAX_STARTUPS = "max-startups"
    REFUSED_BEFORE = "refused-before"
    PAM_ACCOUNT = "pam-account"


_WORDS: tuple[tuple[SshdMessage, str], ...] = (
    (SshdMessage.STRICT_MODES, r"Authentication refused: bad ownership or modes for \S+ (?P<about>\S+)"),
    (SshdMessage.UNREADABLE_KEYS, r"Could not open (?:user '[^']*' )?authorized keys '(?P<about>[^']*)'"),
    (SshdMessage.LOCKED, r"User (?P<about>\S+) not allowed because account is locked"),
    (SshdMessage.NO_SHELL, r"User (?P<about>\S+) not allowed because shell (?:\S+) (?:does not exist|is not executable)"),
    (SshdMessage.NOT_ALLOWED, r"User (?P<about>\S+) from \S+ not allowed because (?:not )?listed in \w+"),
    (
        SshdMessage.NOT_ALLOWED,
        r"User (?P<about>\S+) from \S+ not allowed because .*(?:AllowUsers|DenyUsers|AllowGroups|DenyGroups)",
    ),
    (SshdMessage.NO_USER, r"Invalid user (?P<about>\S+) from"),
    (SshdMessage.ROOT_REFUSED, r"ROOT LOGIN REFUSED|(?P<about>root) .*not allowed"),
    (SshdMessage.ALGORITHM, r"(?:key type|signature algorithm) (?P<about>\S+) not in Pubkey"),
    (SshdMessage.CERTIFICATE, r"Certificate invalid: (?P<about>.+?)(?: \[preauth\])?$"),
    (SshdMessage.TOO_MANY, r"maximum authentication attempts exceeded for (?:invalid user )?(?P<about>\S+)"),
    (SshdMessage.FROM, r"Authentication tried for (?P<about>\S+) with correct key but not from a permitted host"),
    (SshdMessage.NO_SESSION, r"no more sessions|exceeded MaxSessions(?P<about>)"),
    (SshdMessage.PENALTY, r"drop connection #\d+ from \[(?P<about>[^\]]+)\]\S* on \S+ penalty: "),
    (SshdMessage.MAX_STARTUPS, r"drop connection #\d+ from \[(?P<about>[^\]]+)\]\S* on \S+ past MaxStartups"),
    (SshdMessage.REFUSED_BEFORE, r"refused connect from (?:\S+ \()?(?P<about>[\da-fA-F.:]+)"),
    (SshdMessage.PAM_ACCOUNT, r"Access denied for user (?P<about>\S+) by PAM account configuration"),
    (SshdMessage.FAILED_KEY, r"Failed publickey for (?:invalid user )?(?P<about>\S+)"),
)
_COMPILED = tuple((said, re.compile(pattern)) for said, pattern in _WORDS)


class LogLine(Frozen):
    """One line of sshd's log that says something about a log-in."""

    said: SshdMessage
    about: str
    line: str


def parse_sshd_log(text: str) -> tuple[LogLine, ...]:
    """Lines that explain a refusal, in their order, the same one once."""
    found: dict[tuple[SshdMessage, str], LogLine] = {}
    for line in text.splitlines():
        if known := _known(line):
            found[known.said, known.about] = known
    return tuple(found.values())


def _known(line: str) -> LogLine | None:
    for said, pattern in _COMPILED:
        if hit := pattern.search(line):
            return LogLine(said=said, about=hit.groupdict().get("about") or "", line=line.strip()[:LONGEST])
    return None


_TAG = re.compile(r"(?:^|\s)(?P<tag>[\w./()-]+)\[(?P<pid>\d+)\]: ")
_ROUTINE = re.compile(  # how far a log-in came; none of them says why it came no further
    r"debug\d:|Server listening on|Connection (?:from|closed by|reset by)|Accepted |Postponed |Failed none |"
    r"(?:Disconnected from|Read error from remote host)\b|"  # the client's side went away
    r"Received (?:disconnect|signal)|Starting session|Close session|Closing connection|User child is on pid|Transferred: |"
    r"pam_\w+\(sshd:session\): session (?:opened|closed) for user"
)


def other_lines(text: str, user: str, address: str, keys: tuple[str, ...]) -> tuple[str, ...]:
    """What sshd and its PAM modules said about one log-in in words that no kind of message above takes; the last ones, each once.

    A line is about it that names the client's address or its key, or comes from the process of such a line; where none does (the
    server may see another address), one that names the user."""
    lines = [(line, _TAG.search(line)) for line in text.splitlines() if line.strip()]
    own = [(line, tag) for line, tag in lines if tag is None or "sshd" in tag["tag"] or "(sshd:" in line]
    seeds = [(line, tag) for line, tag in own if any(_names(line, x) for x in (address, *keys) if x)]
    seeds = seeds or [(line, tag) for line, tag in own if _names(line, user)]
    pids = {tag["pid"] for _, tag in seeds if tag}
    told = {line for line, _ in seeds} | {line for line, tag in own if tag is None and _names(line, user)}
    mine = [(line, tag) for line, tag in lines if line in told or (tag and tag["pid"] in pids)]
    said = {line[tag.end() :] if tag else line: line.strip()[:LONGEST] for line, tag in mine if _known(line) is None}
    return tuple(line for words, line in said.items() if not _ROUTINE.match(words.strip()))[-MOST_OTHER:]


def _names(line: str, name: str) -> bool:
    return re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-]|\.\w)", line) is not None


def spoken(lines: tuple[str, ...]) -> SshdMessage | None:
    """What sshd says to a connection before it closes it without a banner (OpenSSH 8.x and newer; sshd.c, drop_connection)."""
    words = {"Not allowed at this time": SshdMessage.PENALTY, "Exceeded MaxStartups": SshdMessage.MAX_STARTUPS}
    return next((words[line.strip()] for line in lines if line.strip() in words), None)


class Accepted(Frozen):
    """A log-in that sshd let in."""

    user: str
    address: str
    fingerprint: str
    line: str


_ACCEPTED = re.compile(r"Accepted publickey for (\S+) from (\S+) port \d+ \S+: \S+ (SHA256:[A-Za-z0-9+/]+)")
_BANS = {"attempting authentication": "noauth", "failed authentication": "authfail", "LoginGraceTime": "grace-exceeded",
         "crash": "crash", "refused": "refuseconnection"}  # fmt: skip


def parse_accepted(text: str) -> tuple[Accepted, ...]:
    """Log-ins with a key, in their order."""
    found = ((_ACCEPTED.search(line), line) for line in text.splitlines())
    return tuple(Accepted(user=m[1], address=m[2], fingerprint=m[3], line=line.strip()[:LONGEST]) for m, line in found if m)


def ban_s(line: str, penalties: str) -> int | None:
    """Seconds that a penalty lasts, by the words of its line and the setting PerSourcePenalties; None where they do not say."""
    name = next((n for words, n in _BANS.items() if words in line), "")
    found = re.search(rf"(?:^|\s){name}:(\d+)\b", penalties) if name else None
    return int(found[1]) if found else None


_HOST_KEY_LINE = re.compile(r"\b(?P<mark>SHA256:[A-Za-z0-9+/]{43})(?![A-Za-z0-9+/]).*\((?:ED25519|RSA|ECDSA)\)")
_HOST_KEY_TITLE = re.compile(r"host keys?\b|/etc/ssh/\S*\.pub|ssh_host_\w+_key|key fingerprint:", re.IGNORECASE)


def published_host_keys(lines: tuple[str, ...]) -> tuple[str, ...]:
    """Fingerprints of host keys that a start script printed (`ssh-keygen -l`), under a line that says so."""
    found: list[str] = []
    titled = False
    for line in lines:
        mark = _HOST_KEY_LINE.search(line)
        title = bool(_HOST_KEY_TITLE.search(line))
        if mark and (titled or title):
            found.append(mark["mark"])
        titled = title or (titled and bool(mark))
    return tuple(dict.fromkeys(found))
