"""Judges the own side: the key as given, its halves, the agent, the client's configuration."""

from runbooks.core.judgment import LIKELY, POSSIBLE, SURE
from runbooks.parsers.ssh_key import Damage, KeyFormat, KeyShape
from runbooks.ssh.evidence import Auth, GivenKey, Stage
from runbooks.ssh.view import SshView

WORDS = {
    Damage.NO_FINAL_NEWLINE: "the final newline is lost",
    Damage.CRLF: "it has CRLF line ends",
    Damage.LITERAL_NEWLINES: "it has the two characters \\n instead of newlines",
    Damage.QUOTED: "it stands in quotes",
    Damage.ONE_LINE: "its newlines have become blanks",
    Damage.SPACES: "blanks surround its lines",
    Damage.TRUNCATED: "it is cut short",
    Damage.BASE64: "its base64 is damaged",
}


def judge_own_side(v: SshView) -> None:
    """Every fault of the key and of what would be offered."""
    key = v.key
    if key is None:
        return
    if not key.present:
        half = "private-half-missing" if v.public else "key-missing"
        known = (f"the public half is set: {v.public.fingerprint}",) if v.public else ()
        v.say(half, SURE, f"{key.source}: {key.why_not}", *known, about=key.source)
    elif not key.readable:
        v.say("key-unreadable", SURE, f"{key.source}: {key.why_not}", about=key.source)
    if key.shape is not None and key.present and key.readable:
        _shape(v, key, key.shape)
    _mode(v, key)
    _halves(v, key)
    _certificate(v, key)
    _agent(v, key)
    _client(v)


def _shape(v: SshView, key: GivenKey, shape: KeyShape) -> None:
    about = key.source
    if shape.format in (KeyFormat.PUBLIC, KeyFormat.CERTIFICATE):
        v.say("key-is-public", SURE, f"{about} holds a public {shape.type} key {shape.fingerprint}", about=about)
    elif shape.format is KeyFormat.PUTTY:
        v.say("key-is-putty", SURE, f"{about} begins with PuTTY-User-Key-File", about=about)
    elif shape.format in (KeyFormat.EMPTY, KeyFormat.NONE):
        what = "is empty" if shape.format is KeyFormat.EMPTY else "holds nothing that looks like a key"
        v.say("key-missing", SURE, f"{about} {what}", about=about)
    elif any(d in (Damage.TRUNCATED, Damage.BASE64) for d in shape.damage):
        v.say("key-truncated", SURE, *(f"{about}: {WORDS[d]}" for d in shape.damage), about=about)
    elif shape.damage:
        _damaged(v, key, shape)
    elif shape.encrypted:
        v.say("key-encrypted", SURE, f"{about} is encrypted, and no passphrase is given", about=about)
    elif key.library_reads is False and key.openssh_reads is not False:
        v.say("library-key-bug", LIKELY, f"the library does not read {about}: {key.library_says}",
              "ssh-keygen reads it" if key.openssh_reads else "ssh-keygen was not asked", about=about,
              decides=(f"ssh-keygen -y -P '' -f {key.place or 'KEY'}",))  # fmt: skip
    if key.type == "ssh-rsa" and 0 < key.bits < v.limits.rsa_least_bits:
        v.say(
            "key-too-weak",
            LIKELY,
            f"RSA with {key.bits} bits; servers refuse below {v.limits.rsa_least_bits}",
            about=about,
        )


def _damaged(v: SshView, key: GivenKey, shape: KeyShape) -> None:
    """Damage that loses nothing: whether it matters depends on who reads it."""
    said = [f"{key.source}: {WORDS[d]}" for d in shape.damage]
    if key.openssh_reads is False:
        said.append(f"ssh refuses it: {key.openssh_says}")
    if key.library_reads:
        said.append("this library repairs it while reading, so it works here and fails with ssh")
    harmless = key.openssh_reads is True and key.library_reads is not False
    asked = key.openssh_reads is not None or key.library_reads is False or not key.place  # ssh reads no key but from a file
    decides = () if asked else (f"whether ssh reads it: ssh-keygen -y -P '' -f {key.place}",)
    v.say("key-file-unparsable", POSSIBLE if harmless else SURE if asked else LIKELY, *said, about=key.source, decides=decides)


def _mode(v: SshView, key: GivenKey) -> None:
    if key.mode is not None and key.mode & 0o077 and key.readable and (key.shape is None or key.shape.private):
        said = [f"{key.source} has mode {key.mode:04o}: others may read it, so ssh ignores it"]
        if v.wire and v.wire.auth is Auth.ACCEPTED:
            said.append("this library does not mind: it works here and fails with ssh")
        v.say("key-file-modes", SURE, *said, about=key.source)


def _halves(v: SshView, key: GivenKey) -> None:
    if v.public and key.fingerprint and v.public.fingerprint and v.public.fingerprint != key.fingerprint:
        v.say("key-pair-mismatch", SURE, f"private half: {key.type} {key.fingerprint}",
              f"configured public half: {v.public.type} {v.public.fingerprint}", about=key.source)  # fmt: skip


CLOCK = "whether this machine's clock is right: `date -u` here and on the server"


def _certificate(v: SshView, key: GivenKey) -> None:
    c, refused = key.certificate, bool(v.wire and v.wire.auth is Auth.REFUSED)
    if c is None:
        return
    now = int(v.e.taken_at.timestamp())
    about = f"certificate {c.key_id!r} (serial {c.serial})"
    in_spite = bool(v.wire and v.wire.auth is Auth.ACCEPTED)
    sure, decides = (POSSIBLE, (CLOCK,)) if in_spite else (SURE, ())  # the server, by its own clock, lets it or its key in
    if now >= c.valid_before:
        v.say("certificate-expired", sure, f"{about} ended {now - c.valid_before} s ago", about=about, decides=decides)
    elif now < c.valid_after:
        words = f"{about} begins in {c.valid_after - now} s: is a clock wrong?"
        v.say("certificate-not-yet-valid", sure, words, about=about, decides=decides)
    elif not c.user or (c.for_fingerprint and key.fingerprint and c.for_fingerprint != key.fingerprint):
        v.say(
            "certificate-of-another-key",
            SURE,
            f"{about} is for {c.for_fingerprint}, the key is {key.fingerprint}",
            about=about,
        )
    elif c.principals and v.e.user not in c.principals and refused:
        v.say("certificate-wrong-principal", LIKELY, f"{about} is for {', '.join(c.principals)}, not for {v.e.user}",
              about=about, decides=("sshd's log: Certificate invalid: name is not a listed principal",))  # fmt: skip


def _agent(v: SshView, key: GivenKey) -> None:
    """ssh offers the agent's keys first, and each counts against MaxAuthTries."""
    wire = v.wire
    ended = wire is not None and wire.auth is Auth.TOO_MANY
    only = v.client.get("identitiesonly") == "yes"
    marks = [k.fingerprint for k in v.agent]
    if ended and wire:
        v.say("too-many-keys", SURE, f"{len(wire.offered)} keys were offered, then {wire.auth_says}", about=key.source)
    elif (
        len(marks) >= v.limits.agent_most_keys and not only and key.fingerprint not in marks[: v.limits.agent_most_keys]
    ):
        said = f"the agent holds {len(marks)} keys, which ssh offers before {key.source}"
        v.say(
            "too-many-keys",
            POSSIBLE,
            said,
            about="ssh on this machine",
            decides=(f"ssh -v -o IdentitiesOnly=yes {v.typed}",),
        )


def _client(v: SshView) -> None:
    """What the user's ssh would do differently from the fleet file."""
    c, e = v.client, v.e
    other = []
    if c.get("hostname") and c["hostname"] != e.host:
        other.append(f"ssh goes to {c['hostname']}, the fleet file says {e.host}")
    if c.get("stricthostkeychecking") in ("no", "off", "false"):
        other.append("ssh does not check host keys here (StrictHostKeyChecking no)")
    if other:
        sure = SURE if v.wire and v.wire.stage is not Stage.DONE else POSSIBLE
        v.say("client-config-differs", POSSIBLE if sure is POSSIBLE else LIKELY, *other, about="ssh on this machine",
              decides=(f"ssh -G {v.typed}",))  # fmt: skip
