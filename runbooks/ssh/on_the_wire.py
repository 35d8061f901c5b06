"""Judges the connection: the one stage at which it stopped, and why."""

from runbooks.core.judgment import LIKELY, POSSIBLE, SURE
from runbooks.ssh.evidence import Auth, HostKey, HostKeyFact, Stage, Tcp, Wire
from runbooks.ssh.parsers.ssh_wire import NoBanner, no_banner
from runbooks.ssh.view import SshView

RSA_SIGNATURES = ("rsa-sha2-512", "rsa-sha2-256")


def judge_wire(v: SshView) -> None:
    """The stage's own cause."""
    w = v.wire
    if w is None:
        return
    if w.host_key is not None:
        _host_key(v, w, w.host_key)
    judge = {
        Stage.NAME: _name, Stage.TCP: _tcp, Stage.BANNER: _banner, Stage.KEX: _kex, Stage.METHODS: _methods,
        Stage.AUTH: _auth, Stage.SESSION: _session,
    }.get(w.stage)  # fmt: skip
    if judge:
        judge(v, w)


def _name(v: SshView, w: Wire) -> None:
    v.say("name-unresolved", SURE, f"{w.host}: {w.tcp_says}")


def _tcp(v: SshView, w: Wire) -> None:
    if w.tcp is None:
        v.say("not-asked-again", POSSIBLE, w.tcp_says)
    elif w.tcp is Tcp.REFUSED:
        v.say("no-sshd", SURE, f"{w.host}:{w.port} refuses the connection: the machine answers and nothing listens there",
              decides=("ss -ltn on the machine, through another way in", "is sshd in the image, and is this the right port?"))  # fmt: skip
    elif w.tcp in (Tcp.TIMED_OUT, Tcp.NO_ROUTE):
        v.say("unreachable", SURE, f"{w.host}:{w.port}: {w.tcp_says}: not exposed, filtered, or the machine is off",
              decides=("the provider's state of the machine", "security group, firewall, exposed ports"))  # fmt: skip
    else:
        slug = "jump-host-fails" if w.jump else "unreachable"
        v.say(slug, SURE if w.jump else LIKELY, f"{w.jump or w.host}: {w.tcp_says}", about=w.jump or v.subject)


def _banner(v: SshView, w: Wire) -> None:
    """What is known of how it ended; where that was not recorded, nothing is excluded."""
    through = f"TCP is accepted, then {w.banner_says or 'no banner was read'}"
    match no_banner(w.banner_says):
        case NoBanner.OTHER:
            v.say("not-an-ssh-server", SURE, w.banner_says)
        case NoBanner.SILENT:
            v.say("banner-missing", SURE, through, decides=("is sshd stopped or out of memory? look through another way in",))
        case NoBanner.CLOSED:
            v.say("banner-closed", SURE, through,
                  "what is behind it is open: MaxStartups, PerSourcePenalties, fail2ban or tcp wrappers close so; a full process table too",
                  decides=("sshd's log: drop connection, refused connect, MaxStartups",
                           "one more try, only after minutes: one that goes through is no steady fault"))  # fmt: skip
        case None:
            for slug in ("banner-closed", "banner-missing"):
                v.say(slug, POSSIBLE, through, decides=("whether the server closes the connection or stays silent: nc HOST PORT",))


def _kex(v: SshView, w: Wire) -> None:
    if w.missing:
        v.say("algorithms-do-not-meet", SURE, *w.missing, *((f"server: {w.banner}",) if w.banner else ()))
    else:
        v.say("key-exchange-breaks", LIKELY, w.kex_says, decides=(f"ssh -vvv -p {w.port} {w.host}", "MTU of the path"))


def _host_key(v: SshView, w: Wire, h: HostKey) -> None:
    shown = f"the server shows {h.type} {h.fingerprint}"
    about = f"host key of {w.host}:{w.port}"
    if h.fact is HostKeyFact.TRUSTED:
        if h.pinned and h.stale:
            v.say("stale-known-host", SURE, f"the fleet file vouches for the key: {shown}",
                  *(f"another key in {s.split(' ')[0]}: ssh refuses, this program does not" for s in h.stale), about=about)  # fmt: skip
    elif h.fact is HostKeyFact.UNKNOWN:
        v.say(
            "host-key-unknown",
            SURE,
            h.detail,
            about=about,
            decides=("the fingerprint from the provider or the machine's console",),
        )
    elif h.fact is HostKeyFact.REVOKED:
        v.say("host-key-revoked", SURE, h.detail, about=about)
    elif h.fact is HostKeyFact.CERTIFIED:
        v.say("host-certificate", SURE, h.detail, "works with ssh, fails with this library", about=about)
    elif h.fact is HostKeyFact.CANNOT_VERIFY:
        v.say("host-key-unverifiable", POSSIBLE, h.detail, about=about, decides=("ssh -v with this known_hosts file",))
    elif h.also_known_as:
        v.say("host-key-of-another-machine", LIKELY, h.detail, f"this very key is known as {', '.join(h.also_known_as)}",
              "the address and port have been given to another machine", about=about,
              decides=("the provider's list: who has this address now?",))  # fmt: skip
    else:
        v.say("host-key-changed", SURE, h.detail, "nothing vouches for the new key: a rebuilt machine and an interception look alike",
              about=about, decides=("the fingerprint read on the machine's own console: ssh-keygen -lf",))  # fmt: skip


def _methods(v: SshView, w: Wire) -> None:
    if w.auth is Auth.BROKEN:
        v.say("key-exchange-breaks", LIKELY, w.auth_says)
    else:
        v.say("publickey-not-offered", SURE, f"the server offers {', '.join(w.methods) or 'no method'}, not publickey")


def _auth(v: SshView, w: Wire) -> None:
    if w.auth is Auth.PARTIAL:
        v.say("second-factor", SURE, w.auth_says)
    elif w.auth is Auth.REFUSED and v.key and v.key.type and w.signatures and not _taken(v.key.type, w.signatures):
        v.say(
            "key-type-not-accepted",
            SURE,
            f"the key is {v.key.type}; the server takes signatures {', '.join(w.signatures)}",
        )


def _taken(kind: str, signatures: tuple[str, ...]) -> bool:
    """Whether the server says that it takes a signature that this key can make with SHA-2."""
    wanted = RSA_SIGNATURES if kind == "ssh-rsa" else (kind,)
    return any(name in signatures for name in wanted)


def _session(v: SshView, w: Wire) -> None:
    v.say(
        "sessions-exhausted", SURE, f"the key is accepted, and then {w.session_says}", decides=("sshd -T: maxsessions",)
    )
