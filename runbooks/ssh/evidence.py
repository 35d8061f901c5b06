"""What is read about one log-in: the key as given, the wire stage by stage, and the far side through another way."""

from datetime import datetime
from enum import StrEnum

from pydantic import Field

from runbooks.core.base import Frozen
from runbooks.core.reading import NOT_RECORDED, Reading
from runbooks.parsers.ssh_key import KeyShape
from runbooks.parsers.ssh_text import Accepted, LogLine
from runbooks.ssh.parsers.ssh_wire import Offer


class Stage(StrEnum):
    """Where a connection can stop, in order."""

    KEY = "key"
    NAME = "name"
    TCP = "tcp"
    BANNER = "banner"
    KEX = "key exchange"
    HOST_KEY = "host key"
    METHODS = "methods"
    AUTH = "authentication"
    SESSION = "session"
    COMMAND = "command"
    DONE = "done"


class Certificate(Frozen):
    """The user certificate beside the key (key-cert.pub)."""

    key_id: str
    serial: int
    principals: tuple[str, ...]
    valid_after: int  # seconds since 1970
    valid_before: int
    for_fingerprint: str  # the key that it certifies
    user: bool = True  # a user's, not a host's


class GivenKey(Frozen):
    """The private key as configured: where it is and what it is. Never its content."""

    source: str  # "key file /x", "key in environment variable Y", "the agent's keys"
    place: str = ""  # path of the file, when it is one
    secret: str = ""  # name of the Prefect Secret block, when it is one
    present: bool = True
    readable: bool = True
    why_not: str = ""
    mode: int | None = None
    ours: bool = False  # file owned by the user who runs the engine
    identity: str = ""  # keyed hash of the content, with inode and size, of a file
    shape: KeyShape | None = None
    openssh_reads: bool | None = None  # ssh-keygen's word; None: not asked
    openssh_says: str = ""
    library_reads: bool | None = None  # paramiko's
    library_says: str = ""
    fingerprint: str = ""  # of the public half, whoever read it
    type: str = ""
    bits: int = 0
    certificate: Certificate | None = None


class AgentKey(Frozen):
    """A key that the agent would offer."""

    type: str
    fingerprint: str


class Tcp(StrEnum):
    """What the address did with a connection."""

    OPEN = "open"
    REFUSED = "refused"
    TIMED_OUT = "timed-out"
    NO_ROUTE = "no-route"
    FAILED = "failed"


class HostKeyFact(StrEnum):
    """What is known of the host key that was shown."""

    TRUSTED = "trusted"
    UNKNOWN = "unknown"
    CHANGED = "changed"
    REVOKED = "revoked"
    CERTIFIED = "certified"  # by a certificate authority, verified by the system's ssh
    CANNOT_VERIFY = "cannot-verify"


class HostKey(Frozen):
    """The host key that the server showed, judged."""

    fact: HostKeyFact
    detail: str
    type: str = ""
    fingerprint: str = ""
    public: str = ""  # the key itself, as known_hosts would hold it
    pinned: bool = False  # judged by the fleet file's host_key
    also_known_as: tuple[str, ...] = ()  # other names or nodes with the very same key
    stale: tuple[str, ...] = ()  # "FILE:LINE keyed-hash" of known_hosts entries for this name with other keys


class Auth(StrEnum):
    """The answer to the key."""

    ACCEPTED = "accepted"
    REFUSED = "refused"
    PARTIAL = "partial"  # accepted, and something else is wanted as well
    TOO_MANY = "too-many"  # the server ended it after too many keys
    NOT_TRIED = "not-tried"
    BROKEN = "broken"  # the connection ended during it


class Wire(Frozen):
    """One walk along the connection. Fields after the stage where it stopped keep their defaults."""

    host: str
    port: int
    user: str
    jump: str = ""
    stage: Stage  # the stage that did not succeed; `done`: all did
    addresses: tuple[str, ...] = ()
    address: str = ""
    tcp: Tcp | None = None
    tcp_says: str = ""
    banner: str = ""
    own_address: str = ""  # of this end of the connection
    before_banner: tuple[str, ...] = Field((), title="first lines")
    banner_says: str = ""  # "closed …", "silent …", "not an SSH …"; "": not recorded
    offer: Offer | None = None
    missing: tuple[str, ...] = ()  # "kex: theirs …; ours …"
    kex_says: str = ""
    host_key: HostKey | None = None
    methods: tuple[str, ...] = ()
    signatures: tuple[str, ...] = ()  # server-sig-algs
    auth: Auth = Auth.NOT_TRIED
    auth_says: str = ""
    auth_heard: tuple[str, ...] = Field((), title="answers")  # for a person to read, with its answer to the key
    offered: tuple[str, ...] = ()  # fingerprints of the keys that were offered
    remembered: bool = False  # the answer to the key is that of this run's one attempt, not a new one
    session_says: str = ""
    command_says: str = Field("", title="output")
    connections: int = 0


class PathEntry(Frozen):
    """A file or folder on the way to authorized_keys."""

    path: str
    exists: bool
    uid: int = -1
    gid: int = -1
    mode: int = 0
    device: int = 0
    inode: int = 0
    written_s: float | None = None  # last write, Unix time by its own clock


class AuthorizedKey(Frozen):
    """A line of authorized_keys, without the key."""

    line: int
    type: str
    fingerprint: str
    options: tuple[str, ...] = ()


class KeysFile(Frozen):
    """One authorized_keys file that the server would read."""

    path: str
    exists: bool
    entry: PathEntry | None = None
    by_sshd: bool = True  # False: the place where users put keys, which this sshd does not read
    leads_to: str = ""  # where it really lies, when a part below the home is a link
    lines: tuple[AuthorizedKey, ...] = ()  # a field named `keys` would make dict() take the model for a mapping


class Nologin(Frozen):
    """The file that closes a machine to all but root."""

    path: str
    text: str


class FarSide(Frozen):
    """The server's side, read through another way in."""

    way: str
    host: str
    sshd_runs: bool
    user_exists: bool
    uid: int = -1
    gid: int = -1
    groups: tuple[str, ...] | None = None  # by name, its own first; None: not read
    home: str = ""
    shell: str = ""
    shell_exists: bool = True
    shell_in_chroot: bool | None = None  # None: no ChrootDirectory, or not read
    nologin: Nologin | None = None
    locked: bool | None = None
    path: tuple[PathEntry, ...] = ()
    settings: dict[str, str] = {}  # sshd -T for that user; empty: could not be read
    settings_say: str = ""
    files: tuple[KeysFile, ...] = ()
    log: tuple[LogLine, ...] = ()
    other_lines: tuple[str, ...] = Field((), title="log lines")  # what it says about this log-in in words of no known kind
    log_source: str = ""
    accepted: tuple[Accepted, ...] = ()  # log-ins with a key, as far back as its log was read


class Evidence(Frozen):
    """Everything read about one node's log-in."""

    node: str
    taken_at: datetime
    user: str
    host: str
    port: int
    hands_off: bool = False
    key: Reading[GivenKey]
    configured_public: Reading[KeyShape] = Field(NOT_RECORDED, title="configured public key")  # the public half that should be let in
    public_line: str = ""  # the same as authorized_keys holds it, without its comment
    agent: Reading[tuple[AgentKey, ...]] = Field(NOT_RECORDED, title="keys of the agent")
    client: Reading[dict[str, str]] = Field(NOT_RECORDED, title="settings of the ssh client")  # ssh -G, the settings that matter
    wire: Reading[Wire] = Field(title="the log-in")
    far: Reading[FarSide] = Field(NOT_RECORDED, title="the far side")
    alike: tuple[str, ...] = ()  # other nodes whose newest report says the same of the same key
