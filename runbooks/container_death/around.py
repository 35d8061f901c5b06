"""Faults around a container that keep it from running or from being restored: engine, disk, image, mounts, devices."""

from runbooks.container_death.evidence import ContainerFacts, Disk, Evidence, HostFacts
from runbooks.container_death.words import Limits, cause, clock, known, near, span
from runbooks.core.reading import Unknown, Why
from runbooks.core.verdict import Cause, Certainty


def judge_daemon(e: Evidence, limits: Limits) -> list[Cause]:
    """The engine does not answer: its daemon is gone (and why), or it is there and says nothing."""
    answer = e.daemon
    if not isinstance(answer, Unknown) or answer.reason not in (Why.UNREACHABLE, Why.TIMED_OUT):
        return []
    host, subject = known(e.host), f"the engine on {e.node}"
    said = f"the client says: {answer.detail}"
    if host is None or host.daemon_alive is None:
        silent = answer.reason is Why.TIMED_OUT  # somebody accepted the connection
        slug, at = ("daemon-stuck", "accepts and does not answer") if silent else ("daemon-down", "cannot be reached")
        check = ("whether the daemon's process runs on the node",)
        seen = "no process of it was found" if host else "the node's processes were not read"
        return [cause(slug, Certainty.LIKELY, subject, said, f"its socket {at}; {seen}", decides=check)]
    if host.daemon_alive:
        alive = f"its process {host.daemon_pid} runs since {clock(host.daemon_started_at)}"
        return [cause("daemon-stuck", Certainty.CONFIRMED, subject, said, alive)]
    recent = [u for u in host.upgrades if near(u.at, e.taken_at, limits.deaths_window_s)]
    if recent:
        last = recent[-1]
        words = f"package log: {last.package} {last.what} at {clock(last.at)}, and no daemon since"
        return [cause("daemon-upgraded", Certainty.CONFIRMED, subject, said, "its process is gone", words)]
    return [cause("daemon-down", Certainty.CONFIRMED, subject, said, "its process is gone")]


def judge_host(e: Evidence, c: ContainerFacts | None, limits: Limits) -> list[Cause]:
    """Disk, inodes, image, bind sources, devices: what must be there before the container can run."""
    host = known(e.host)
    found = _disks(e, host, limits) if host else []
    if c is None:
        return found
    daemon = known(e.daemon)
    if daemon and daemon.images_read and c.image_id and c.image_id not in daemon.images:
        words = f"image {c.image} ({c.image_id[:19]}) is not on {e.node} any more"
        found.append(cause("image-gone", Certainty.CONFIRMED, f"image {c.image}", words))
    if host and host.missing_sources:
        words = "not there: " + ", ".join(host.missing_sources)
        found.append(cause("mount-gone", Certainty.CONFIRMED, f"mounts of {c.name}", words))
    if host and host.missing_devices:
        words = "not there: " + ", ".join(host.missing_devices)
        found.append(cause("devices-lost", Certainty.CONFIRMED, f"devices of {e.node}", words))
    return found


def _disks(e: Evidence, host: HostFacts, limits: Limits) -> list[Cause]:
    found: list[Cause] = []
    seen: set[tuple[int, int]] = set()
    for disk in host.disks:
        if (disk.size_bytes, disk.free_bytes) in seen:
            continue  # one file system under two paths
        seen.add((disk.size_bytes, disk.free_bytes))
        if disk.free_bytes < min(limits.disk_free_min_bytes, disk.size_bytes // 10):
            words = f"{disk.path} has {disk.free_bytes >> 20} MiB free of {disk.size_bytes >> 20} MiB"
            found.append(cause("disk-full", Certainty.CONFIRMED, f"{disk.path} on {e.node}", words))
        if disk.inodes and disk.inodes_free * 100 < disk.inodes * limits.inodes_free_min_percent:
            words = f"{disk.path} has {disk.inodes_free} of {disk.inodes} inodes free"
            found.append(cause("inodes-full", Certainty.CONFIRMED, f"{disk.path} on {e.node}", words))
    return found


def judge_fuse(e: Evidence) -> list[Cause]:
    """FUSE mounts that the container needs and whose process is gone or does not answer."""
    found = []
    for m in known(e.fuse) or ():
        if m.state == "alive" or not m.wanted:
            continue
        words = f"{m.path} ({m.type}, {m.where}): {m.error or m.state}"
        if m.state == "dead":
            found.append(cause("stale-fuse", Certainty.CONFIRMED, f"{m.where}:{m.path}", words))
        else:
            check = ("the state of its process, and of the storage behind it",)
            found.append(cause("fuse-hung", Certainty.LIKELY, f"{m.where}:{m.path}", words, decides=check))
    return found


PODMAN = (
    "this engine is Podman: its OOMKilled is always false and its socket gives few or no events, so both prove nothing; "
    "the exit code and the kernel log decide, and who sent a signal is not known"
)


def host_notes(e: Evidence, limits: Limits) -> tuple[str, ...]:
    """Facts of engine and host for a person: what Podman never tells, clock, low memory, a TPU VM read as such."""
    daemon, host = known(e.daemon), known(e.host)
    podman = (PODMAN,) if daemon and daemon.podman else ()
    if host is None:
        return podman
    notes = [*podman, *host.time_jumps[-3:]]
    if abs(host.clock_ahead_s) > limits.clock_off_s:
        way = "ahead of" if host.clock_ahead_s > 0 else "behind"
        notes.append(f"the clock of {e.node} is {span(host.clock_ahead_s)} {way} this machine's")
    if host.memory_available_bytes * 100 < host.memory_total_bytes * limits.memory_free_min_percent:
        notes.append(f"only {host.memory_available_bytes >> 20} MiB of memory are available on {e.node}")
    if host.accel_devices and not host.nvidia_devices:
        notes.append(f"{e.node} is a TPU VM ({', '.join(host.accel_devices[:4])}): no NVIDIA device is expected")
    return (*notes, *_shm(host.shm))


def _shm(shm: Disk | None) -> tuple[str, ...]:
    if shm is None or shm.free_bytes * 20 > shm.size_bytes:
        return ()
    return (f"shared memory of the host has {shm.free_bytes >> 20} MiB free of {shm.size_bytes >> 20} MiB",)
