"""What may be done about confirmed causes, as data: one exact path, line or file, with its identity as it was read."""

import hashlib
import posixpath
import shlex

from runbooks.core.args.ssh import AddPublicKey, NormaliseSecret, RemoveKnownHost, RepairSshPath, RestrictKeyMode
from runbooks.core.plan import Plan, Step
from runbooks.core.verdict import Certainty
from runbooks.parsers.ssh_key import Damage
from runbooks.ssh.evidence import GivenKey, HostKeyFact, KeysFile, PathEntry
from runbooks.ssh.far_side import wrong_entries
from runbooks.ssh.view import SshView

OWNER = "engine"  # files of this machine


def offer(v: SshView) -> tuple[tuple[Plan, ...], tuple[str, ...]]:
    """(plans, why others are withheld)."""
    if v.e.hands_off:
        return (), (f"{v.e.node} is marked hands_off: nothing is offered",)
    sure = {c.slug for c in v.causes if c.certainty is Certainty.CONFIRMED}
    made = [_key_text(v, sure), _stale(v, sure), _path(v, sure), _register(v, sure)]
    plans = [p for p in made if isinstance(p, Plan)]
    return tuple(plans), tuple(p for p in made if isinstance(p, str) and p)


def _key_text(v: SshView, sure: set[str]) -> Plan | str:
    """The key file itself, when it is a file of ours and everything of the key is still there."""
    key = v.key
    wanted = sure & {"key-file-unparsable", "key-file-modes"}
    if key is None or not wanted:
        return ""
    if key.secret and key.identity:
        return _secret_text(key)
    if not key.place or not key.ours or not key.identity:
        return f"{key.source} is not a file of the user who runs this: correct it where it comes from"
    rewrite, aside = "key-file-unparsable" in wanted, beside(key.place, key.identity)
    place, judged = shlex.quote(key.place), RestrictKeyMode(path=key.place, identity=key.identity, mode=key.mode)
    step = Step(
        kind="normalise-key" if rewrite else "restrict-key-mode",
        owner=OWNER,
        args=judged.plain() | ({"aside": aside} if rewrite else {}),
        commands=(f"cp -pn {place} {shlex.quote(aside)}", _rewritten(key), f"chmod 600 {place}") if rewrite else (f"chmod 600 {place}",),
        effect=f"ssh reads {key.place}; the key itself is the same",
        loses=f"nothing: the file as it was is kept as {aside}" if rewrite else "nothing",
    )  # fmt: skip
    return Plan(name="put the key file right", steps=(step,), for_causes=tuple(sorted(wanted)), settle_s=0.2)


def beside(path: str, identity: str) -> str:
    """Where a file as it was judged is kept."""
    return f"{path}.before-{hashlib.sha256(identity.encode()).hexdigest()[:8]}"


TIDY_WORDS = (
    "import sys; from runbooks.parsers.ssh_key import tidy; from tasks.credentials import read_secret, write_secret; "
    "name, aside = sys.argv[1:]; was = read_secret(name); write_secret(aside, was); write_secret(name, tidy(was))"
)
LINES = {Damage.CRLF, Damage.NO_FINAL_NEWLINE}
TIDY = (
    'import re, sys; p = sys.argv[1]; t = open(p).read().replace("\\\\r", "").replace("\\\\n", "\\n"); '
    'b, m, e = re.search("(-----BEGIN[^-]+-----)(.*)(-----END[^-]+-----)", t, re.S).groups(); m = m.strip(); '
    'l = m.split("\\n") if "\\n" in m else m.split(); open(p, "w").write("\\n".join([b, *map(str.strip, l), e, ""]))'
)


def _rewritten(key: GivenKey) -> str:
    """Line ends by sed; what is worse by the words between its marks, each line by itself."""
    damage = set(key.shape.damage) if key.shape else set()
    words = ("sed", "-i", "-e", r"s/\r$//", "-e", "$a\\") if damage <= LINES else ("python3", "-c", TIDY)
    return shlex.join((*words, key.place))


def _secret_text(key: GivenKey) -> Plan:
    """The key in a Prefect Secret block, put right by this program's own words; python3 is the one that it runs with."""
    aside = beside(key.secret, key.identity).replace(".", "-")
    step = Step(
        kind="normalise-secret",
        owner=OWNER,
        args=NormaliseSecret(block=key.secret, identity=key.identity, aside=aside).plain(),
        commands=(shlex.join(("python3", "-c", TIDY_WORDS, key.secret, aside)),),
        effect=f"whoever reads Secret {key.secret} gets a key that ssh reads; the key itself is the same",
        loses=f"nothing: the text as it was is kept in the block {aside}",
    )
    return Plan(name="put the key's text right", steps=(step,), for_causes=("key-file-unparsable",), settle_s=0.2)


def _stale(v: SshView, sure: set[str]) -> Plan | str:
    h = v.wire.host_key if v.wire else None
    if h is None:
        return ""
    if "stale-known-host" not in sure:
        changed = h.fact is HostKeyFact.CHANGED
        return "no known_hosts entry is removed: nothing vouches for the new host key" if changed else ""
    file, _, rest = h.stale[0].partition(" ")
    path, _, line = file.rpartition(":")
    if not line.isdecimal():
        return f"no known_hosts entry is removed: {h.stale[0]!r} names no line of a file"
    aside = beside(path, h.stale[0])
    step = Step(
        kind="remove-known-host",
        owner=OWNER,
        args=RemoveKnownHost(path=path, line=int(line), hash=rest, vouched=h.fingerprint, aside=aside).plain(),
        commands=(f"cp -pn {shlex.quote(path)} {shlex.quote(aside)}", f"sed -i '{line}s/^./#/' {shlex.quote(path)}"),
        effect=f"{path} no longer names the old key; the fleet file's key {h.fingerprint} is the one that is shown",
        loses=f"one line, which becomes a comment; the file as it was is kept as {aside}",
    )
    return Plan(name="remove the stale host key", steps=(step,), for_causes=("stale-known-host",), settle_s=0.2)


def _path(v: SshView, sure: set[str]) -> Plan | str:
    wanted = sure & {"server-strict-modes", "home-of-another-user"}
    if not wanted or v.far is None:
        return ""
    if not v.far.home:
        return f"the path is not repaired: which folder is {v.e.user}'s home could not be read"
    wrong = [p for p in wrong_entries(v.far) if p.path in {c.subject for c in v.causes}]
    inside = [p for p in wrong if p.path == v.far.home or p.path.startswith(v.far.home.rstrip("/") + "/")]
    outside = [p.path for p in wrong if p not in inside]
    if outside or not inside:
        return f"{', '.join(outside) or 'the path'} lies outside {v.e.user}'s home: a person must decide"
    steps = tuple(_fix(v, p) for p in inside)
    return Plan(name="repair the path", steps=steps, for_causes=tuple(sorted(wanted)), settle_s=0.5)


def _fix(v: SshView, p: PathEntry) -> Step:
    assert v.far is not None  # noqa: S101
    mine = p.uid in (0, v.far.uid)
    uid, gid = (p.uid, p.gid) if mine else (v.far.uid, v.far.gid)
    mode = p.mode & ~0o022
    chown = () if mine else (f"chown {uid}:{gid} {shlex.quote(p.path)}",)
    return Step(
        kind="repair-ssh-path",
        owner=v.e.node,
        args=RepairSshPath(
            path=p.path, device=p.device, inode=p.inode, uid=p.uid, gid=p.gid, mode=p.mode, to_uid=uid, to_gid=gid, to_mode=mode
        ).plain(),
        commands=(*chown, f"chmod {mode:04o} {shlex.quote(p.path)}"),
        effect=f"{p.path} belongs to {uid}, mode {mode:04o}: sshd reads the keys again",
        loses=f"others' right to write to {p.path}" + ("" if mine else f"; user {p.uid} no longer owns it"),
    )  # fmt: skip


def _register(v: SshView, sure: set[str]) -> Plan | str:
    """The configured public key into the first file that sshd reads."""
    if "key-not-registered" not in sure or v.far is None:
        return ""
    if v.public is None or v.key is None or v.public.fingerprint != v.key.fingerprint:
        return "no key is added: the fleet file does not name the public half of the key that is used"
    if not v.e.public_line:
        return "no key is added: the text of its public half was not read"
    if not v.far.home:
        return f"no key is added: which folder is {v.e.user}'s home could not be read"
    home = v.far.home.rstrip("/") + "/"
    file = next((f for f in v.far.files if f.by_sshd and f.path.startswith(home)), None)
    if file is None:
        return "no key is added: sshd's key files lie outside the user's home; their owner adds it"
    if file.leads_to:
        return f"no key is added: {file.path} lies behind a link, at {file.leads_to}; whoever made the link adds it there"
    step = _add(v, file)
    return Plan(name="register the public key", steps=(step,), for_causes=("key-not-registered",), settle_s=0.5)


def _append(v: SshView, file: KeysFile, inode: int) -> tuple[str, ...]:
    """On the node, as root or that user: the folder and file where they are missing, then the line."""
    assert v.far is not None  # noqa: S101
    path, owner = shlex.quote(file.path), f"-o {v.far.uid} -g {v.far.gid}"
    made = (f"install -d -m 0700 {owner} {shlex.quote(posixpath.dirname(file.path))}", f"install -m 0600 {owner} /dev/null {path}")
    line = shlex.quote(f"{v.e.public_line} added-by-hand")
    return (*(() if inode else made), f"sed -i -e '$a\\' {path}", f"printf '%s\\n' {line} >> {path}")


def _add(v: SshView, file: KeysFile) -> Step:
    assert v.far is not None  # noqa: S101
    assert v.public is not None  # noqa: S101
    e = file.entry
    inode = e.inode if e and file.exists else 0
    return Step(
        kind="add-public-key",
        owner=v.e.node,
        args=AddPublicKey(
            path=file.path, inode=inode, keys=tuple(k.fingerprint for k in file.lines), uid=v.far.uid, gid=v.far.gid,
            home=v.far.home, fingerprint=v.public.fingerprint,
        ).plain(),
        commands=_append(v, file, inode),
        effect=f"{file.path} lets {v.public.type} {v.public.fingerprint} in",
    )  # fmt: skip
