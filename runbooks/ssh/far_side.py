"""Judges the far side once a key was refused: which of the server's reasons it was, in sshd's own order."""


from runbooks.core.judgment import LIKELY, POSSIBLE, SURE
from runbooks.core.times import utc
from runbooks.parsers.ssh_text import SshdMessage, ban_s, spoken
from runbooks.ssh.behind_key import unexplained
from runbooks.ssh.evidence import Auth, AuthorizedKey, FarSide, KeysFile, PathEntry, Stage, Tcp, Wire
from runbooks.ssh.user_lists import left_out
from runbooks.ssh.view import SshView, quote
from runbooks.triage.text import says


def judge_far_side(v: SshView) -> None:
    """Causes that only the server's own side can tell; without it, what would tell them."""
    w = v.wire
    if w is None:
        return
    if w.stage is Stage.TCP and w.tcp is Tcp.REFUSED and v.far:
        said = "sshd runs there, but not on this port" if v.far.sshd_runs else "no sshd runs there"
        v.causes[-1] = v.causes[-1].model_copy(update={"evidence": (*v.causes[-1].evidence, f"{v.far.way}: {said}")})
    if w.stage is Stage.BANNER and any(c.slug == "banner-closed" for c in v.causes):
        _before_banner(v, w)
    if w.auth not in (Auth.REFUSED, Auth.TOO_MANY):
        return
    explained = {c.slug for c in v.causes}
    if v.far is None:
        _blind(v, w, explained)
        return
    before = len(v.causes)
    _account(v, v.far)
    _settings(v, v.far)
    _path(v, v.far)
    _keys(v, v.far, w)
    if len(v.causes) == before and not explained & EXPLAINS and _old_rsa(v, w, registered=True):
        return
    if len(v.causes) == before and not explained & EXPLAINS:
        log = tuple(line.line for line in v.far.log[-3:])
        v.say("publickey-denied", POSSIBLE, *unexplained(v), "the key is refused, and nothing on the far side explains it", *log,
              decides=("sshd -T -C user=…", "LogLevel VERBOSE for one try"))  # fmt: skip


DROPS = {SshdMessage.PENALTY: "address-penalised", SshdMessage.MAX_STARTUPS: "too-many-unauthenticated",
    SshdMessage.REFUSED_BEFORE: "banner-closed"}


def _before_banner(v: SshView, w: Wire) -> None:
    """sshd's own word on connections that it closed before its banner: to this one, or in its log about this one's address."""
    here, settings = spoken(w.before_banner), v.far.settings if v.far else {}
    told = [line for line in (v.far.log if v.far else ()) if line.said in DROPS]
    mine = [line for line in told if line.about == w.own_address]
    line = next(reversed(mine or told), None)
    kind = here or (line.said if line else None)
    if kind is None:
        return
    words = [f"TCP is accepted, then {w.banner_says}", *quote(line)]
    seconds = ban_s(line.line, settings.get("persourcepenalties", "")) if line else None
    words += [f"such a penalty lasts {seconds} s (PerSourcePenalties)"] if seconds is not None else []
    words += [f"MaxStartups is {settings['maxstartups']}"] if kind is SshdMessage.MAX_STARTUPS and "maxstartups" in settings else []
    sure = bool(mine or here)
    if line and not sure:
        words.append(f"that address is {line.about}; this side's own is {w.own_address or 'not known'}")
    v.causes[:] = [c for c in v.causes if c.slug != "banner-closed"]
    decides = () if sure else ("whether the server sees this machine under that address",)
    v.say(DROPS[kind], SURE if sure else LIKELY, *words, decides=decides)


EXPLAINS = {
    "key-type-not-accepted", "certificate-expired", "certificate-not-yet-valid", "certificate-of-another-key",
    "certificate-wrong-principal", "too-many-keys",
}  # fmt: skip


def _blind(v: SshView, w: Wire, explained: set[str]) -> None:
    """No other way in: right key or wrong key cannot be told apart, except by what the own side shows."""
    if explained & (EXPLAINS | {"key-pair-mismatch"}):
        return
    _old_rsa(v, w, registered=False)
    v.say("publickey-denied", POSSIBLE, *unexplained(v), f"{v.subject} refuses {', '.join(w.offered) or 'the key'}",
          "whether the key is wrong or the server refuses the right one shows only on the server",
          decides=("ssh-keygen -lf ~USER/.ssh/authorized_keys there", "sshd's log: 'Failed publickey' (wrong key) or "
                   "'Authentication refused' (right key, server refuses)", "second_way in the fleet file"))  # fmt: skip


def _old_rsa(v: SshView, w: Wire, registered: bool) -> bool:
    """An RSA key and a server that names no signature (RFC 8308), as those from before SHA-2 (RFC 8332): it was signed with SHA-2."""
    if w.signatures or not w.methods or v.key is None or v.key.type != "ssh-rsa":
        return False
    words = ("the key is ssh-rsa, and the server names no signature that it takes, as one that knows SHA-1 only; this side uses SHA-2",
             f"its banner: {w.banner}", *(("the key is registered there",) if registered else ()))  # fmt: skip
    v.say("key-type-not-accepted", LIKELY if registered else POSSIBLE, *words,
          decides=(f"`ssh -o PubkeyAcceptedAlgorithms=+ssh-rsa {v.typed}` for this one host", "an Ed25519 or ECDSA key"))  # fmt: skip
    return True


def _account(v: SshView, far: FarSide) -> None:
    user = f"account {v.e.user}"
    if not far.user_exists:
        v.say(
            "wrong-user",
            SURE,
            f"there is no user {v.e.user} on {far.host}",
            *quote(v.told(SshdMessage.NO_USER)),
            about=user,
        )
        return
    line = v.told(SshdMessage.LOCKED)
    if line or (far.locked and far.settings.get("usepam") == "no"):
        v.say("account-locked", SURE, f"the password field of {v.e.user} begins with '!'", *quote(line), about=user)
    line = v.told(SshdMessage.NO_SHELL)
    if line or not far.shell_exists:
        v.say(
            "shell-missing",
            SURE,
            f"the shell of {v.e.user}, {far.shell}, does not exist or may not be run",
            *quote(line),
            about=user,
        )


def _settings(v: SshView, far: FarSide) -> None:
    s, about = far.settings, f"sshd on {far.host}"
    line = v.told(SshdMessage.ROOT_REFUSED)
    if v.e.user == "root" and (line or s.get("permitrootlogin") == "no"):
        v.say(
            "root-login-refused", SURE, f"PermitRootLogin {s.get('permitrootlogin', '?')}", *quote(line), about=about
        )
    line, listed = v.told(SshdMessage.NOT_ALLOWED), left_out(v.e.user, far)
    if line:
        v.say(
            "user-not-allowed",
            SURE,
            f"AllowUsers, DenyUsers or a group leaves {v.e.user} out",
            *quote(line),
            about=about,
        )
    elif listed:
        check = () if listed.sure else (f"`id -nG {v.e.user}` there, and sshd's log: 'not allowed because'",)
        v.say("user-not-allowed", SURE if listed.sure else POSSIBLE, listed.words, about=about, decides=check)
    line = v.told(SshdMessage.ALGORITHM)
    if line and not any(c.slug == "key-type-not-accepted" for c in v.causes):
        v.say("key-type-not-accepted", SURE, f"the server does not take {line.about}", *quote(line), about=about)
    line = v.told(SshdMessage.CERTIFICATE)
    if line and not any(c.slug.startswith("certificate-") for c in v.causes):
        other = says(line.line, "ssh-auth-failure/certificate-wrong-principal")
        slug = "certificate-wrong-principal" if other else "certificate-refused"
        v.say(slug, SURE, *quote(line), about=about)
    if v.key and v.key.certificate and not any(c.slug.startswith("certificate-") for c in v.causes):
        cas = s.get("trustedusercakeys", "?")
        certainty = SURE if cas == "none" else LIKELY if cas == "?" else POSSIBLE
        v.say("certificate-refused", certainty, f"TrustedUserCAKeys is {cas}", about=about)
    if s.get("authorizedkeysfile") == "none" and not s.get("trustedusercakeys", "none") not in ("none", ""):
        v.say("authorized-keys-elsewhere", SURE, "AuthorizedKeysFile is none: no key file is read at all", about=about)


def wrong_entries(far: FarSide) -> tuple[PathEntry, ...]:
    """Paths that StrictModes refuses: another owner, or writable by group or others."""
    ok = (0, far.uid)
    return tuple(p for p in far.path if p.exists and (p.uid not in ok or p.mode & 0o022))


def _path(v: SshView, far: FarSide) -> None:
    line = v.told(SshdMessage.STRICT_MODES)
    strict = far.settings.get("strictmodes", "yes") == "yes"
    for p in wrong_entries(far) if strict else ():
        said = f"{p.path}: owner {p.uid}, mode {p.mode:04o}; {v.e.user} is {far.uid}"
        home = p.path == far.home and p.uid not in (0, far.uid)
        decides = () if far.home else (f"which folder is the home: `getent passwd {v.e.user}` there",)
        slug = "home-of-another-user" if home else "server-strict-modes"
        v.say(slug, SURE if far.home else LIKELY, said, *quote(line), about=p.path, decides=decides)
    if line and not (strict and wrong_entries(far)):
        v.say("server-strict-modes", LIKELY, *quote(line), about=line.about)
    line = v.told(SshdMessage.UNREADABLE_KEYS)
    if line:
        v.say("authorized-keys-unreadable", SURE, *quote(line), about=line.about)


def _keys(v: SshView, far: FarSide, w: Wire) -> None:
    """Whether the key is in the file at all; only once the server's other reasons are known."""
    if not far.user_exists or (v.key and v.key.certificate) or _not_offered(v, w):
        return
    read = [f for f in far.files if f.by_sshd]
    there = [(f.path, k) for f in read for k in f.lines if k.fingerprint in w.offered]
    aside = [f.path for f in far.files if not f.by_sshd and any(k.fingerprint in w.offered for k in f.lines)]
    files = ", ".join(f.path + ("" if f.exists else " (not there)") for f in read) or "none is configured"
    named = far.settings.get("authorizedkeyscommand", "")
    program = "" if named == "none" else named
    if there:
        _registered(v, there)
    elif aside and far.settings:
        setting = far.settings.get("authorizedkeysfile", "?")
        said = f"the key stands in {', '.join(aside)}, and this sshd reads {files}: AuthorizedKeysFile {setting}"
        v.say("authorized-keys-elsewhere", SURE, said, about=f"sshd on {far.host}")
    elif fails := [x for x in far.other_lines if program and "AuthorizedKeysCommand" in x and program in x]:
        said = f"{', '.join(w.offered)} stands in none of: {files}. This sshd also asks a program, which fails: {fails[-1]}"
        runs_as = far.settings.get("authorizedkeyscommanduser", "its AuthorizedKeysCommandUser")
        check = (f"`{program} {v.e.user}` started by hand as {runs_as}",)
        v.say("authorized-keys-elsewhere", LIKELY, said, about=f"sshd on {far.host}", decides=check)
    elif not read and program:
        v.say(
            "publickey-denied",
            POSSIBLE,
            "keys come from AuthorizedKeysCommand",
            decides=("run that command for the user",),
        )
    else:
        also = (f"this sshd also asks a program for keys: {program}",) if program else ()
        v.say(
            "key-not-registered",
            SURE if far.settings and not program else LIKELY,
            f"{', '.join(w.offered)} stands in none of: {files}",
            *also,
            *_history(far, read, w),
            about=files,
            decides=(f"what {program} prints for {v.e.user}, started by its AuthorizedKeysCommandUser",) if program else (),
        )


def _not_offered(v: SshView, w: Wire) -> bool:
    """Whether the tries were used up by other keys of the agent, before any that is known to be the right one."""
    given = v.key.fingerprint if v.key else ""
    return given not in w.offered and any(k.fingerprint not in w.offered for k in v.agent)


def _history(far: FarSide, read: list[KeysFile], w: Wire) -> list[str]:
    """When the file was last written, and that the key was let in before: somebody took it out."""
    words = [f"{f.path} was last written {utc(f.entry.written_s)}"
             for f in read if f.entry and f.entry.written_s is not None]  # fmt: skip
    before = [a for a in far.accepted if a.fingerprint in w.offered]
    return words + ([f"this key was let in before: {before[-1].line}"] if before else [])


def _registered(v: SshView, there: list[tuple[str, AuthorizedKey]]) -> None:
    line = v.told(SshdMessage.FROM)
    path, key = there[0]
    limits = [o for o in key.options if o in ("from", "expiry-time", "cert-authority")]
    if line or limits:
        said = f"{path} line {key.line}: the key is there with {', '.join(limits) or 'a restriction'}"
        v.say("key-restricted", SURE if line else LIKELY, said, *quote(line), about=path)
