"""Judges the GPUs themselves: gone, unreadable, cut off in a container, memory without a holder, a stuck counter."""

from dataclasses import replace

from runbooks.core.gpu_set import Gpu, GpuError
from runbooks.core.reading import Absent, Known, Unknown
from runbooks.core.verdict import Certainty, Finding
from runbooks.gpu.activity import table_says_none
from runbooks.gpu.benign import explained_here, shared_gpu
from runbooks.gpu.busy import busy_without_holder
from runbooks.gpu.cards import at_rest, rest_words, unjudged
from runbooks.gpu.parsers.kernel_log import bus_key
from runbooks.gpu.verdicts import GpuVerdict, of_gpu
from runbooks.gpu.view import GpuView, size, span
from runbooks.gpu.xid_faults import events_of_this_boot
from runbooks.triage.text import says


def _lost(words: str) -> bool:
    return says(words, "zombie-gpu/gpu-off-the-bus")


def _is_cut_off(words: str) -> bool:
    """NVML's Unknown Error, with or without the words around it."""
    return says(f"NVML: {words}", "zombie-gpu/container-lost-devices")


def judge_devices(view: GpuView) -> list[GpuVerdict]:
    """Every verdict about a GPU as such."""
    found = [_error(view, e) for e in (view.gpu_set.errors if view.gpu_set else ())]
    found += [*_missing(view), *_fewer(view), *_containers(view), *_cut_off(view)]
    for gpu in view.gpus:
        shared = shared_gpu(view, gpu)
        found += [v for v in (shared, _records(view, gpu)) if v]
        if not gpu.mig and not explained_here(view, gpu):
            found += [v for v in (None if shared else _memory(view, gpu), busy_without_holder(view, gpu)) if v]
    return found


def _error(view: GpuView, e: GpuError) -> GpuVerdict:
    where = f"GPU {e.index}" if e.index is not None else f"GPU at {bus_key(e.bus_id) or e.bus_id}"
    words = (f'the driver says "{e.error}" for {where}',)
    if _lost(e.error):
        asks = ("the kernel log for Xid 79",)
        return GpuVerdict("gpu-off-the-bus", Certainty.CONFIRMED, where, words, asks, bus=bus_key(e.bus_id))
    if view.in_container and _is_cut_off(e.error):
        return GpuVerdict("container-lost-devices", Certainty.LIKELY, where, words, _CUT_ASKS, bus=bus_key(e.bus_id))
    asks = ("`nvidia-smi -q -i <index>` and the kernel log",)
    return GpuVerdict("gpu-unreadable", Certainty.LIKELY, where, words, asks, bus=bus_key(e.bus_id))


def _fewer(view: GpuView) -> list[GpuVerdict]:
    """Fewer GPUs than the fleet file gives the node, or none where it says that there are some: one of the two is wrong."""
    e = view.evidence
    none = isinstance(e.gpus, Absent)
    listed = 0 if none else len(view.gpus) + len(view.gpu_set.errors) if view.gpu_set else None
    if not e.gpu_words or listed is None or listed >= (e.must_have or 1):
        return []
    here = f"no GPU here ({e.gpus.proof})" if isinstance(e.gpus, Absent) else f"the driver lists {listed}"
    words = (f"the fleet file says {', '.join(e.gpu_words)}", here)
    asks = ("`lspci -d 10de:` and the kernel log since the last boot: lost by driver or bus, or not built in",)
    return [GpuVerdict("gpus-missing", Certainty.LIKELY, e.node, words, asks)]


def _missing(view: GpuView) -> list[GpuVerdict]:
    """More NVIDIA devices on the bus than the driver lists. In a container that is normal: it was given a part."""
    found = view.gpu_set
    if found is None or found.pci_count is None or view.in_container:
        return []
    listed = len(found.gpus) + len(found.errors)
    if found.pci_count <= listed:
        return []
    words = (f"the PCI bus has {found.pci_count} NVIDIA GPUs, the driver lists {listed}",)
    asks = ("whether one is given to a virtual machine (vfio-pci): `lspci -k -d 10de:`", "the kernel log for Xid 79")
    return [GpuVerdict("gpu-off-the-bus", Certainty.LIKELY, f"{found.pci_count - listed} GPU", words, asks)]


_CUT_ASKS = (
    "the same `nvidia-smi` on the host: if it answers there, the container lost its device nodes",
    "whether `systemctl daemon-reload` or a runtime restart ran on the host since the container began",
)


def _cut_off(view: GpuView) -> list[GpuVerdict]:
    """NVML fails as a whole with Unknown Error in a container, and no Xid 79 explains it."""
    reading = view.evidence.gpus
    if not isinstance(reading, Unknown) or not _is_cut_off(reading.detail):
        return []
    if view.facts is None or not view.facts.in_container or any(e.xid == 79 for e in events_of_this_boot(view)):
        return []
    words = (
        f'NVML says "{reading.detail}" inside this container',
        "no Xid 79 in the part of the kernel log that was read",
    )
    return [GpuVerdict("container-lost-devices", Certainty.LIKELY, view.evidence.node, words, _CUT_ASKS)]


def _containers(view: GpuView) -> list[GpuVerdict]:
    """Seen from the host: its GPUs answer, and a container's NVML does not."""
    known = view.evidence.containers
    fine = view.gpu_set is not None and bool(view.gpus) and not view.gpu_set.errors and not view.in_container
    found = []
    for box in known.value if isinstance(known, Known) else ():
        if _is_cut_off(box.nvml):
            words = [f'NVML says "{box.nvml}" in container {box.name or box.container[:12]}']
            words += [f"all {len(view.gpus)} GPUs answer on the host"] if fine else []
            sure = Certainty.CONFIRMED if fine else Certainty.LIKELY
            where = f"container {box.container[:12]}"
            found.append(
                GpuVerdict("container-lost-devices", sure, where, tuple(words), _CUT_ASKS, container=box.container)
            )
    return found


_ASK_REST = "the memory in use of a card of this model that nobody uses (fleet file: limits `assumed_reserve_mib`, `idle_floor_mib`)"


def _memory(view: GpuView, gpu: Gpu) -> GpuVerdict | None:
    """Memory that no listed process accounts for, above the driver's own."""
    extra, rest = unaccounted(view, gpu), at_rest(view, gpu)
    if extra is None or extra <= rest.most:
        return _vanished(view, gpu)
    words = [
        f"{size(gpu.memory_used_bytes)} of GPU {gpu.index} is used; {size(extra)} of it belongs to no listed process"
    ]
    if not table_says_none(gpu) and not isinstance(gpu.processes, Known):
        words.append("the process table is empty, which means unresolved PIDs, not 'no running processes found'")
        words += [f"processes here with GPU device files open: {_pids(view)}"] if _pids(view) else []
        asks = ("look from the host before any clean-up: `nvidia-smi`, `fuser -v /dev/nvidia*`",)
        return of_gpu(gpu, "holder-in-other-namespace", Certainty.POSSIBLE, words, asks)
    found = _held_by_nobody(view, gpu, words)
    return found if rest.known else _of_unknown_card(view, gpu, found, extra)


def _of_unknown_card(view: GpuView, gpu: Gpu, found: GpuVerdict, extra: int) -> GpuVerdict:
    """The driver of this card may keep so much for itself. A large share of the memory no driver keeps."""
    large = 100 * extra >= view.limits.large_share_percent * gpu.memory_total_bytes
    most = Certainty.LIKELY if large else Certainty.POSSIBLE
    sure = max(found.certainty, most, key=list(Certainty).index)
    return replace(found, certainty=sure, evidence=(*found.evidence, rest_words(gpu)), decides=(*found.decides, _ASK_REST))


def of_unknown_cards(view: GpuView) -> tuple[Finding, ...]:
    """Memory of which nobody can say whether it is in use: named, and nothing rests on it."""
    said = [words for g in view.gpus if not g.mig and (words := unjudged(view, g, unaccounted(view, g)))]
    return tuple(Finding(priority="LOW", category="GPU", issue=f"not judged: {words}", action=f"say {_ASK_REST}") for words in said)


def unaccounted(view: GpuView, gpu: Gpu) -> int | None:
    """Bytes used beyond the listed processes and the driver's reserve; None where a process's share is not told."""
    listed = gpu.processes.value if isinstance(gpu.processes, Known) else ()
    if any(g.used_bytes is None for g in listed):
        return None
    return max(0, gpu.memory_used_bytes - sum(g.used_bytes or 0 for g in listed) - at_rest(view, gpu).own)


def _pids(view: GpuView) -> str:
    fds = {p.pid for p in view.processes.values() if p.nvidia_fds} | set(view.device_holders or ())
    return ", ".join(str(p) for p in sorted(fds))


def _held_by_nobody(view: GpuView, gpu: Gpu, words: list[str]) -> GpuVerdict:
    holders = view.device_holders
    asks = ("`fuser -v /dev/nvidia*` as root on the host", "the same reading a minute later")
    if holders is None or view.in_container or view.facts is None or not view.facts.root:
        words.append("not every process could be looked at (root on the host is needed)")
        return of_gpu(gpu, "memory-without-holder", Certainty.POSSIBLE, words, asks)
    listed = {g.pid for g in gpu.processes.value} if isinstance(gpu.processes, Known) else set()
    others = sorted(set(holders) - listed)
    words.append(
        f"device files are open in pid {', '.join(map(str, others))}"
        if others
        else "no process has its device files open"
    )
    words += (lasts := _lasts(view, gpu))
    sure = Certainty.CONFIRMED if lasts and not others else Certainty.LIKELY
    return of_gpu(gpu, "memory-without-holder", sure, words, asks)


def _lasts(view: GpuView, gpu: Gpu) -> list[str]:
    """That its memory was in use already, longer ago than the driver takes to free that of a killed process; [] if that was not read."""
    before = view.earlier.gpu_used_bytes.get(gpu.uuid) if view.earlier else None
    if before is None or before < gpu.memory_used_bytes * 0.95 or view.gap_s < view.limits.vanish_s:
        return []
    return [f"it was {size(before)} already {span(view.gap_s)} ago"]


def _vanished(view: GpuView, gpu: Gpu) -> GpuVerdict | None:
    """A listed pid that is not to be found: another namespace, or a process that ended a moment ago."""
    lost = view.strangers(gpu)
    if not lost or not isinstance(view.evidence.processes, Known):
        return None
    held = sum(g.used_bytes or 0 for g in lost)
    pids = ", ".join(str(g.pid) for g in lost)
    words = [f"pid {pids} holds {size(held)} of GPU {gpu.index} and is not a process of this PID namespace"]
    if view.in_container:
        sure = Certainty.LIKELY if view.facts else Certainty.POSSIBLE
        return of_gpu(
            gpu, "holder-in-other-namespace", sure, words, ("look from the host: `ps -p " + pids + "`",)
        )
    lasts = _lasts(view, gpu)
    late = f"the same reading {span(view.limits.vanish_s)} later: the driver frees the memory of a killed process late"
    hidden = f"whether it lives out of sight: `fuser -v /dev/nvidia{gpu.index}` as root, and whether its use and memory move"
    sure = Certainty.LIKELY if lasts else Certainty.POSSIBLE  # one look does not tell one that has just ended from one that is hidden
    return of_gpu(gpu, "memory-without-holder", sure, [*words, *lasts], (hidden,) if lasts else (late, hidden))


def _records(view: GpuView, gpu: Gpu) -> GpuVerdict | None:
    """Memory errors that the card itself counts. Corrected ones harm no result; so many of them are memory that decays."""
    words = []
    if gpu.remap and gpu.remap.failed:
        words.append(f"GPU {gpu.index} could not remap a row: its spare rows are used up")
    if gpu.remap and gpu.remap.pending:
        words.append(f"GPU {gpu.index} has a row remap pending: it takes effect at the next reset")
    if gpu.ecc_uncorrected_volatile:
        words.append(
            f"GPU {gpu.index} counted {gpu.ecc_uncorrected_volatile} uncorrected ECC errors since its last reset"
        )
    most = view.limits.ecc_corrected_most
    if (gpu.ecc_corrected_volatile or 0) > most:
        words.append(f"GPU {gpu.index} corrected {gpu.ecc_corrected_volatile} ECC errors since the driver was loaded (more than {most})")
        words += [f"{gpu.remap.correctable} of its rows were remapped for such"] if gpu.remap and gpu.remap.correctable else []
    sure = Certainty.CONFIRMED if gpu.remap and (gpu.remap.failed or gpu.remap.pending) else Certainty.LIKELY
    return of_gpu(gpu, "gpu-event", sure, words, ("`nvidia-smi -q -d ECC,ROW_REMAPPER`",)) if words else None
