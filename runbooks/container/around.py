"""Faults around a container that keep it from running or from being restored: engine, disk, image, mounts, devices."""

import os.path

from runbooks.container.evidence import ContainerFacts, Evidence
from runbooks.container.others import mate, pod_mates
from runbooks.container.parsers.engine_error import refusal
from runbooks.container.shared_end import said
from runbooks.container.words import Limits, cause, clock, lacks_inodes, lacks_space, log_of, near, span, without_driver
from runbooks.core.distinct import capital
from runbooks.core.host_facts import Disk, EngineUnit, HostFacts, Upgrade
from runbooks.core.reading import Known, Unknown, UnknownReason, value_of
from runbooks.core.sizes import size as sized
from runbooks.core.verdict import Cause, Certainty
from runbooks.triage.closing import closing_error

OF_THE_ENGINE = ("container", "siblings", "events")  # readings that the daemon itself answers


def judge_daemon(e: Evidence, limits: Limits) -> list[Cause]:
    """The engine does not answer: its daemon is gone (and why), or it is there and says nothing."""
    answer = e.daemon
    if not isinstance(answer, Unknown) or answer.reason not in (UnknownReason.UNREACHABLE, UnknownReason.TIMED_OUT):
        return []
    host, subject = value_of(e.host), f"the engine on {e.node}"
    client = f"the client says: {answer.detail}"
    if host is None or host.daemon_alive is None:
        silent = answer.reason is UnknownReason.TIMED_OUT  # somebody accepted the connection
        slug, at = ("daemon-stuck", "accepts and does not answer") if silent else ("daemon-down", "cannot be reached")
        check = ("whether the daemon's process runs on the node",)
        seen = "no process of it was found" if host else "the node's processes were not read"
        return [cause(slug, Certainty.LIKELY, subject, client, f"its socket {at}; {seen}", decides=check)]
    if host.daemon_alive:
        alive = f"its process {host.daemon_pid} runs since {clock(host.daemon_started_at)}"
        spoke = [name for name in OF_THE_ENGINE if isinstance(getattr(e, name), Known)]
        if spoke:  # it told these in the same look: one question that it left open is not a silence
            words = f"it answered all the same for: {', '.join(spoke)}"
            check = ("whether it answers now: docker version",)
            return [cause("daemon-stuck", Certainty.LIKELY, subject, client, alive, words, decides=check)]
        return [cause("daemon-stuck", Certainty.CONFIRMED, subject, client, alive)]
    return _down(e, host, subject, client, limits)


def _down(e: Evidence, host: HostFacts, subject: str, answer: str, limits: Limits) -> list[Cause]:
    """The daemon is gone. An upgrade of any age is why, where its end, or this boot, made that effective."""
    gone = (answer, "its process is gone", *_unit_says(host.engine_unit))
    down = cause("daemon-down", Certainty.CONFIRMED, subject, *gone)
    upgrade = next((u for u in reversed(host.upgrades) if u.about == "engine"), None)
    if upgrade is None:
        return [down]
    sure, words = _effective(e, host, upgrade, limits)
    log = f"package log: {said(upgrade)}. {capital(words)}"
    if sure is None:
        return [_with(down, log)]
    check = ("the daemon's log since then",) if sure is Certainty.LIKELY else ()
    found = cause("daemon-upgraded", sure, subject, *gone, log, decides=check)
    return [found, down] if sure is Certainty.LIKELY else [found]


def _effective(e: Evidence, host: HostFacts, u: Upgrade, limits: Limits) -> tuple[Certainty | None, str]:
    """How sure the daemon is gone by that upgrade, and why; None: it is not the reason, or nothing says so."""
    unit = host.engine_unit
    if unit is not None and unit.entered_at is not None and unit.left_at is not None:
        until = clock(unit.left_at)
        if unit.entered_at > u.at:
            return None, f"it ran with that from {clock(unit.entered_at)} until {until}"
        if (u.at - unit.left_at).total_seconds() <= limits.upgrade_window_s:
            return Certainty.CONFIRMED, f"it had run since {clock(unit.entered_at)}, ended at {until}, and has not come up since"
    if u.at < host.booted_at:
        if unit is not None and unit.entered_at is None:
            return Certainty.LIKELY, f"the machine was booted at {clock(host.booted_at)}, and the engine has not come up since"
        return None, "whether it ran since is not known"
    if near(u.at, e.taken_at, limits.deaths_window_s):
        return Certainty.CONFIRMED, "and no daemon since"
    return Certainty.LIKELY, "in this boot"


def _unit_says(unit: EngineUnit | None) -> tuple[str, ...]:
    return (f"its unit is {unit.state}" + (f" ({unit.result})" if unit.result else ""),) if unit else ()


def _with(found: Cause, words: str) -> Cause:
    return found.model_copy(update={"evidence": (*found.evidence, words)})


def judge_host(e: Evidence, c: ContainerFacts | None, limits: Limits) -> list[Cause]:
    """Disk, inodes, image, bind sources, devices: what must be there before the container can run."""
    host = value_of(e.host)
    found = _disks(e, host, limits) if host else []
    if c is None:
        return found
    daemon = value_of(e.daemon)
    if daemon and daemon.images_read and c.image_id and c.image_id not in daemon.images:
        words = f"image {c.image} ({c.image_id[:19]}) is not on {e.node} any more"
        found.append(cause("image-gone", Certainty.CONFIRMED, f"image {c.image}", words))
    if host and host.missing_sources:
        words = "not there: " + ", ".join(host.missing_sources)
        found.append(cause("mount-gone", Certainty.CONFIRMED, f"mounts of {c.name}", words))
    if host:
        found += _bare_sources(e, c, host) + _driver(c, host)
    if host and host.missing_devices:
        words = "not there: " + ", ".join(host.missing_devices)
        sure, decides = without_driver(host)
        found.append(cause("devices-lost", sure, f"devices of {e.node}", words, decides=decides))
    return found


def _bare_sources(e: Evidence, c: ContainerFacts, host: HostFacts) -> list[Cause]:
    """Bind sources that are an empty folder: what should be mounted there is not, or what the application misses."""
    found, missed = [], refusal("\n".join(closing_error(log_of(e)))).paths
    sources = {os.path.normpath(m.source): m.destination for m in c.mounts if m.type == "bind"}
    for p in host.places:
        inside = sources.get(p.path)
        if inside is None or p.kind != "folder" or p.entries != 0 or p.mounted:
            continue
        words = f"{p.path} is an empty folder on the host, and nothing is mounted there"
        subject = f"mounts of {c.name}"
        if p.unmounted:
            table = f"fstab mounts {p.unmounted}, and nothing is mounted on it"
            found.append(cause("mount-gone", Certainty.CONFIRMED, subject, words, table))
        elif lost := [m for m in missed if m == inside or m.startswith(inside.rstrip("/") + "/")]:
            names = f"its own last error speaks of {lost[0]}, which would lie there"
            check = (f"what should be mounted on {p.path}: findmnt --fstab, the storage's own log",)
            found.append(cause("mount-gone", Certainty.LIKELY, subject, words, names, decides=check))
    return found


def _driver(c: ContainerFacts, host: HostFacts) -> list[Cause]:
    """For a container that needs GPUs and does not run: the loaded driver is not the installed one."""
    words = driver_gap(host) if c.gpu_requests and c.status not in ("running", "paused") else ""
    log = [f"package log: {said(u)}" for u in host.upgrades if u.about in ("driver", "kernel")][-3:]
    return [cause("driver-changed", Certainty.CONFIRMED, "the GPU driver of the host", words, *log)] if words else []


def driver_gap(host: HostFacts) -> str:
    """How the loaded driver differs from the libraries that a new container is given; "" if it does not."""
    d = host.driver
    if d is None or not d.libraries or d.loaded in d.libraries:
        return ""
    installed = ", ".join(d.libraries)
    if d.loaded:
        return f"the kernel runs driver {d.loaded}, installed are the libraries of {installed}"
    module = f"A module of {d.module} is there" if d.module else "No module file for the running kernel is there"
    return f"no NVIDIA driver is loaded, installed are the libraries of {installed}. {module}" if not host.nvidia_devices else ""


def _disks(e: Evidence, host: HostFacts, limits: Limits) -> list[Cause]:
    found: list[Cause] = []
    seen: set[tuple[int, int]] = set()
    for disk in host.disks:
        if (disk.size_bytes, disk.free_bytes) in seen:
            continue  # one file system under two paths
        seen.add((disk.size_bytes, disk.free_bytes))
        if lacks_space(disk, limits):
            words = f"{disk.path} has {sized(disk.free_bytes)} free of {sized(disk.size_bytes)}"
            found.append(cause("disk-full", Certainty.CONFIRMED, f"{disk.path} on {e.node}", words, _held_by_engine(e)))
        if lacks_inodes(disk, limits):
            words = f"{disk.path} has {disk.inodes_free} of {disk.inodes} inodes free"
            found.append(cause("inodes-full", Certainty.CONFIRMED, f"{disk.path} on {e.node}", words))
    return found


def _held_by_engine(e: Evidence) -> str:
    """What of the disk the engine could give back."""
    daemon = value_of(e.daemon)
    sizes = {"images without a name": daemon.dangling_bytes, "the build cache": daemon.build_cache_bytes} if daemon else {}
    held = [f"{sized(size)} are {what}" for what, size in sizes.items() if size is not None]
    return "of the engine's own, " + " and ".join(held) if held else ""


def judge_fuse(e: Evidence) -> list[Cause]:
    """FUSE mounts that the container needs and whose process is gone or does not answer."""
    found = []
    for m in value_of(e.fuse) or ():
        if m.state == "alive" or not m.wanted:
            continue
        by = f"; pid {m.server_pid} serves it" if m.server_pid else ""
        words = f"{m.path} ({m.type}, {m.where}): {m.error or m.state}{by}"
        if m.state == "dead":
            found.append(cause("stale-fuse", Certainty.CONFIRMED, f"{m.where}:{m.path}", words, *_served_by(e)))
        else:
            check = ("the state of its process, and of the storage behind it",)
            found.append(cause("fuse-hung", Certainty.LIKELY, f"{m.where}:{m.path}", words, decides=check))
    return found


def _served_by(e: Evidence) -> list[str]:
    """Containers of the same pod that ended: one of them may have served the mount. With the kernel's line about each."""
    c = value_of(e.container)
    ended = [s for s in pod_mates(e, c) if s.status in ("exited", "dead")] if c is not None else []
    kills = {s.id: k.text for s in ended for k in value_of(e.ooms) or () if s.id[:12] in k.cgroup}
    return [f"in its pod, {mate(s)}" + (f"; kernel: {kills[s.id]}" if s.id in kills else "") for s in ended]


PODMAN = (
    "this engine is Podman: its OOMKilled is always false and its socket gives few or no events, so both prove nothing. "
    "The exit code and the kernel log decide, and who sent a signal is not known"
)


def host_notes(e: Evidence, limits: Limits) -> tuple[str, ...]:
    """Facts of engine and host for a person: what Podman never tells, clock, low memory, a TPU VM read as such."""
    daemon, host = value_of(e.daemon), value_of(e.host)
    podman = (PODMAN,) if daemon and daemon.podman else ()
    if host is None:
        return podman
    notes = [*podman, *host.time_jumps[-3:]]
    if abs(host.clock_ahead_s) > limits.clock_off_s:
        way = "ahead of" if host.clock_ahead_s > 0 else "behind"
        notes.append(f"the clock of {e.node} is {span(host.clock_ahead_s)} {way} this machine's")
    notes += [f"{d.path} is mounted read-only: nothing is written there" for d in host.disks if d.read_only]
    if gap := driver_gap(host):
        notes.append(f"{gap}: a container that is started now gets no GPU")
    if host.memory_available_bytes * 100 < host.memory_total_bytes * limits.memory_free_min_percent:
        notes.append(f"only {sized(host.memory_available_bytes)} of memory are available on {e.node}")
    if host.accel_devices and not host.nvidia_devices:
        notes.append(f"{e.node} is a TPU VM ({', '.join(host.accel_devices[:4])}): no NVIDIA device is expected")
    return (*notes, *_shm(host.shm))


def _shm(shm: Disk | None) -> tuple[str, ...]:
    if shm is None or shm.free_bytes * 20 > shm.size_bytes:
        return ()
    return (f"shared memory of the host has {sized(shm.free_bytes)} free of {sized(shm.size_bytes)}",)
