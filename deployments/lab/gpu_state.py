"""The state file of the stub GPUs: what `nvml_stub.c` and `nvidia_smi.py` answer. Written here, read by both at each
call.

Lines `key = value`; driver keys first, then one `[gpu]` section per GPU. `process = PID BYTES KIND SM FLAG` may
repeat; its memory counts only while /proc/PID lives and is not Z. FLAG: `-`, `foreign` (a PID of another namespace:
always there), `hidden` (holds memory, is not listed). Standard library only: the fake nvidia-smi imports it on the
lab's node.
"""

import os
from dataclasses import dataclass, field
from pathlib import Path

H100 = {
    "uuid": "GPU-5a3c1e90-0000-4000-8000-000000000001",
    "name": "NVIDIA H100 80GB HBM3",
    "bus_id": "00000000:00:06.0",
    "total": "85520809984",
    "reserved": "503316480",
    "extra": "9240576",  # used beyond the sum of the processes while a context exists, as recorded
    "mode": "ok",  # ok | lost | unknown
    "sm": "0",  # series of utilization.gpu, walked one step per look
    "memory_percent": "0",
    "power_mw": "136480",
    "idle_power_mw": "77930",
    "power_limit_mw": "700000",
    "temperature": "49",
    "pstate": "0",
    "clock": "1980",
    "clock_max": "1980",
    "reasons": "0",
    "ecc_uncorrected": "0",
    "ecc_corrected": "0",
    "remap": "0,0,0,0",
    "mig": "0",
    "compute": "0",
    "recovery": "0",
    "latched": "0",  # 1: the series goes on without a process
}


@dataclass
class HeldMemory:
    """A process that holds memory of a stub GPU."""

    pid: int
    bytes: int
    kind: str = "C"
    sm: int = 0
    flag: str = "-"

    @property
    def counts(self) -> bool:
        """Whether its memory is in use: it lives, or is out of sight by its nature."""
        return self.flag == "foreign" or alive(self.pid)


@dataclass
class StubGpu:
    """One `[gpu]` section."""

    keys: dict[str, str] = field(default_factory=lambda: dict(H100))
    processes: list[HeldMemory] = field(default_factory=list)

    def number(self, key: str) -> int:
        """A numeric key."""
        return int(self.keys[key], 0)

    @property
    def held(self) -> list[HeldMemory]:
        """Processes whose memory is in use."""
        return [p for p in self.processes if p.counts]

    @property
    def used(self) -> int:
        """Bytes in use without the driver's reserve."""
        return sum(p.bytes for p in self.held) + (self.number("extra") if self.held else 0)


@dataclass
class StubState:
    """The whole file."""

    version: str = "580.159.04"
    cuda: int = 13000
    mode: str = "ok"  # ok | no-driver | hang | unknown
    gpus: list[StubGpu] = field(default_factory=list)

    def write(self, path: Path) -> None:
        """Replace the file in one step: a reader sees the old or the new."""
        lines = [f"version = {self.version}", f"cuda = {self.cuda}", f"mode = {self.mode}"]
        for gpu in self.gpus:
            lines += ["[gpu]", *(f"{k} = {v}" for k, v in gpu.keys.items())]
            lines += [f"process = {p.pid} {p.bytes} {p.kind} {p.sm} {p.flag}" for p in gpu.processes]
        fresh = path.with_name(path.name + ".new")
        fresh.write_text("\n".join(lines) + "\n")
        fresh.replace(path)


def alive(pid: int) -> bool:
    """Whether it exists and is not Z: a defunct process has given its GPU memory back."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return text[text.rfind(")") + 2] not in "ZX"


def read_state(path: Path) -> StubState:
    """The file as it is now; without one, no driver."""
    state, gpu = StubState(mode="no-driver"), None
    for line in path.read_text().splitlines() if path.exists() else []:
        if line.startswith("[gpu"):
            gpu = StubGpu()
            state.gpus.append(gpu)
        elif "=" in line and not line.startswith("#"):
            key, value = (x.strip() for x in line.split("=", 1))
            _put(state, gpu, key, value)
    return state


def _put(state: StubState, gpu: StubGpu | None, key: str, value: str) -> None:
    if gpu is None:
        setattr(state, key, int(value) if key == "cuda" else value)
    elif key == "process":
        pid, size, kind, sm, flag = value.split()
        gpu.processes.append(HeldMemory(int(pid), int(size), kind, int(sm), flag))
    else:
        gpu.keys[key] = value


def next_step(path: Path, index: int, steps: int) -> int:
    """The next place in a GPU's series, counted in a file beside the state (each call is a process of its own)."""
    count = path.with_name(f"{path.name}.{index}.looks")
    with count.open("a+") as f:
        os.lockf(f.fileno(), os.F_LOCK, 0)
        f.seek(0)
        at = int(f.read() or 0)
        f.truncate(0)
        f.write(str(at + 1))
    return at % max(1, steps)
