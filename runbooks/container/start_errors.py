"""What the engine's own words about a failed start mean: by the knowledge base, held against what was read of the host."""

import errno

from runbooks.container.evidence import ContainerFacts, Evidence, FuseMount
from runbooks.container.parsers.engine_error import refusal
from runbooks.container.words import Limits, cause, lacks_inodes, lacks_space, without_driver
from runbooks.core.host_facts import HostPath
from runbooks.core.reading import value_of
from runbooks.core.sizes import size as sized
from runbooks.core.verdict import Cause, Certainty
from runbooks.triage.text import meanings

MEANS = {
    "stale-fuse": ("container-death/stale-fuse",),
    "devices-lost": ("container-death/devices-lost", "stuck-spawning/gpu-broken-on-host"),
    "disk-full": ("container-death/disk-full",),
    "image-gone": ("container-death/image-gone", "stuck-spawning/image-not-found", "stuck-spawning/image-unpullable"),
    "mount-gone": ("container-death/mount-gone",),
    "bad-command": ("container-death/bad-command",),
}  # our causes of a start that was refused, and every name that the knowledge base has for them
SURE, LIKELY = Certainty.CONFIRMED, Certainty.LIKELY


def start_error(e: Evidence, c: ContainerFacts, limits: Limits) -> Cause:
    """The cause of State.Error: a path that is in the way or missing, what its words mean, else `start-refused`.

    The engine empties it when a start works: while it stands there, it is why the container does not run now."""
    words = f"the engine could not start it: {c.error}"
    said = refusal(c.error)
    there = _places(e, said.paths)
    if mount := _broken_mount(e, said.paths):
        slug, sure = ("stale-fuse", SURE) if mount.state == "dead" else ("fuse-hung", LIKELY)
        return cause(slug, sure, f"{mount.where}:{mount.path}", words, f"{mount.path} ({mount.type}): {mount.error or mount.state}")
    if said.code == errno.EEXIST and said.paths:
        now = next((p for p in reversed(there) if p.kind != "none"), there[-1] if there else None)
        return _in_the_way(c, words, now.path if now else said.paths[-1], now)
    for slug in meanings(c.error, MEANS):
        if slug == "disk-full" and (room := _room(e, said.every_path, limits)):
            return _unnamed(c, words, there, *room)
        found, decides = _held(e, c, slug, there)
        if found is not None:
            return cause(slug, found, f"container {c.name}", words, f"exit code {c.exit_code}", decides=decides)
    return _unnamed(c, words, there)


def never_started(c: ContainerFacts) -> Cause:
    """It was created, and the engine keeps no error of a start: its exit code 0 is of no life."""
    words = ("it was created and never started; the engine keeps no error of a start",)
    check = ("whether anybody started it: the engine's events since it was created", "what should start it, and the log of that")
    return cause("start-refused", Certainty.POSSIBLE, f"container {c.name}", *words, decides=check)


def never_ran(e: Evidence, c: ContainerFacts) -> list[Cause]:
    """Its log holds nothing but the words with which the runtime could not run its command: State.Error stays empty then."""
    lines = [line for line in value_of(e.log) or () if line.strip()]
    if not c.exit_code or not lines or not all(meanings(line, {"bad-command": MEANS["bad-command"]}) for line in set(lines)):
        return []
    words = (f"all that its log says: {lines[-1][:300]}", f"exit code {c.exit_code}")
    check = (
        f"the image's processor against the machine's: `docker image inspect --format '{{{{.Architecture}}}}' {c.image}`, `uname -m`",
        "whether the file is in the image, may be executed, and has Unix line ends",
    )
    return [cause("bad-command", LIKELY, f"container {c.name}", *words, decides=check)]


def _places(e: Evidence, paths: tuple[str, ...]) -> list[HostPath]:
    host = value_of(e.host)
    return [p for path in paths for p in (host.places if host else ()) if p.path == path and p.kind != "unread"]


def _broken_mount(e: Evidence, paths: tuple[str, ...]) -> FuseMount | None:
    """A FUSE mount of the host that is dead or hangs and holds one of the paths: the engine cannot look there, and then cannot
    make the folder that is there."""
    broken = [m for m in value_of(e.fuse) or () if m.where == "host" and m.state != "alive"]
    return next((m for m in broken for p in paths if p == m.path or p.startswith(m.path.rstrip("/") + "/")), None)


def _in_the_way(c: ContainerFacts, words: str, path: str, there: HostPath | None) -> Cause:
    """EEXIST: what stands at that path now."""
    check = (f"findmnt {path}; ls -A {path}: is something mounted there, is it empty?",)
    if there is None:
        return cause("mount-point-in-the-way", LIKELY, path, words, "what lies there was not read", decides=check)
    if there.kind == "none":
        now = f"{path} is not there any more: what was in the way is gone"
        return cause("start-refused", LIKELY, f"container {c.name}", words, now, decides=("another start by hand",))
    what = "something is mounted there" if there.mounted else "nothing is mounted there"
    if there.kind == "folder" and there.entries == 0 and not there.mounted:
        return cause("mount-point-in-the-way", SURE, path, words, f"{path} is an empty folder, and {what}")
    holds = f"{there.entries} entries" if there.entries is not None else "entries that were not counted"
    kind = f"a folder with {holds}" if there.kind == "folder" else f"a {there.kind}" if there.kind != "other" else "no plain file"
    said = f"{path} is {kind}, and {what}: it may be data, and nothing of it may be removed unasked"
    return cause("mount-point-in-the-way", LIKELY, path, words, said, decides=check)


def _held(e: Evidence, c: ContainerFacts, slug: str, there: list[HostPath]) -> tuple[Certainty | None, tuple[str, ...]]:
    """How sure the words make that cause beside the readings; None where these contradict it."""
    host, daemon = value_of(e.host), value_of(e.daemon)
    if slug == "mount-gone":
        gone = any(p.kind == "none" for p in there) or bool(host and host.missing_sources)
        if host is not None and (there or host.places) and not gone:
            return None, ()
        return (SURE, ()) if gone else (LIKELY, ("the path that the error names, on the host",))
    if slug == "image-gone" and daemon is not None and daemon.images_read and c.image_id in daemon.images:
        return None, ()
    if slug == "devices-lost" and host is not None and host.nvidia_devices and not host.missing_devices:
        return None, ()
    if slug == "devices-lost" and host is not None:
        return without_driver(host)
    if slug == "stale-fuse" and not any(m.state == "dead" for m in value_of(e.fuse) or ()):
        return LIKELY, ("a mount whose process is gone: none was seen by now",)
    return SURE, ()


def _room(e: Evidence, paths: tuple[str, ...], limits: Limits) -> tuple[str, ...]:
    """What contradicts a full disk: the host's disk that holds the path has space and inodes. What was full is smaller than it."""
    host = value_of(e.host)
    over = [d for d in (host.disks if host else ()) for p in paths if p == d.path or p.startswith(d.path.rstrip("/") + "/")]
    disk = max(over, key=lambda d: len(d.path), default=None)
    if disk is None or lacks_space(disk, limits) or lacks_inodes(disk, limits):
        return ()
    free = f"{disk.path} has {sized(disk.free_bytes)} free of {sized(disk.size_bytes)}"
    return (f"{free}: what is full is the container's own disk, or a quota",)


def _unnamed(c: ContainerFacts, words: str, there: list[HostPath], *more: str) -> Cause:
    """Words that fit no known cause; what the paths in them show is told all the same."""
    seen = [f"{p.path} is {'not there' if p.kind == 'none' else f'a {p.kind}'} on the host" for p in there]
    return cause("start-refused", LIKELY, f"container {c.name}", words, *more, *seen, decides=("the engine's log at that time",))
