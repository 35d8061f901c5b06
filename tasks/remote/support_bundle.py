"""Reads what a support bundle holds of one machine: a fixed list of read-only commands, each bounded in time and size."""

import json
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from time import monotonic

from runbooks.core.base import Frozen
from runbooks.core.reading import UnknownReason
from runbooks.core.redact import Redactor
from tasks.transport.base import Host, TransportError

LARGEST = 2 << 20  # bytes of one answer that are fetched
COMMAND_S = 20.0  # of one command; the bundle does without what is late
AT_ONCE = 4  # commands; servers allow ten channels on a connection
CONTAINERS = 12
PROCESSES = 16
ENVIRONMENT = re.compile(  # variables whose values say how a job was set up; of all others only the names are kept
    r"(?:NCCL|CUDA|NVIDIA|TORCH|PYTORCH|GLOO|RAY|OMP|UCX|PET|SLURM|TP|MKL)_\w+\Z"
    r"|MASTER_(?:ADDR|PORT)\Z|(?:LOCAL_)?(?:RANK|WORLD_SIZE)\Z|LD_LIBRARY_PATH\Z|PATH\Z|TZ\Z|HOSTNAME\Z"
)
_KEY_BEGIN = re.compile(r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----")
_KEY_END = re.compile(r"-----END [A-Z ]{0,40}PRIVATE KEY-----")


class Piece(Frozen):
    """One file of the bundle: what was run for it and how that ended."""

    name: str
    command: str
    text: str = ""
    problem: str = ""  # why there is nothing, or not all
    exit: int | None = None
    seconds: float = 0.0


def plan(logs: tuple[str, ...]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """(file in the bundle, command) of everything that is always asked for, most telling first."""
    return (*READINGS, *((f"logs/named/{n}-{_safe(p)}", _tail(p)) for n, p in enumerate(logs, 1)))


def _tail(path: str) -> tuple[str, ...]:
    return ("tail", "-c", str(LARGEST - 1024), "--", path)


READINGS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("versions/system.txt", ("uname", "-a")),  # every machine answers this one, or it answers nothing
    ("readings/nvidia-smi.txt", ("nvidia-smi",)),
    ("logs/kernel.log", ("dmesg", "--time-format", "iso")),
    (
        "logs/journal.log",
        ("journalctl", "--no-pager", "-o", "short-iso", "-p", "warning", "-n", "4000", "--since", "-2 days"),
    ),
    (
        "logs/sshd.log",
        ("journalctl", "--no-pager", "-o", "short-iso", "-t", "sshd", "-n", "1000", "--since", "-2 days"),
    ),
    ("readings/gpus.txt", ("nvidia-smi", "-q")),
    (
        "readings/gpu-processes.csv",
        ("nvidia-smi", "--query-compute-apps=pid,gpu_uuid,used_memory,name", "--format=csv,noheader"),
    ),
    ("readings/topology.txt", ("nvidia-smi", "topo", "-m")),
    ("readings/processes.txt", ("ps", "-ww", "-eo", "pid,ppid,user,stat,lstart,etimes,rss,nlwp,wchan:20,args", "--sort=-rss")),
    ("readings/memory.txt", ("cat", "/proc/meminfo")),
    (
        "readings/pressure.txt",
        ("cat", "/proc/loadavg", "/proc/pressure/memory", "/proc/pressure/io", "/proc/pressure/cpu"),
    ),
    ("readings/disks.txt", ("df", "-PTh")),
    ("readings/inodes.txt", ("df", "-Pi")),
    ("readings/mounts.txt", ("cat", "/proc/mounts")),
    ("readings/addresses.txt", ("ip", "-brief", "address")),
    ("readings/routes.txt", ("ip", "route")),
    ("readings/sockets.txt", ("ss", "-Htanp")),
    ("readings/clock.txt", ("timedatectl", "show")),
    ("readings/limits.txt", ("cat", "/proc/self/limits", "/proc/sys/fs/file-nr", "/proc/sys/kernel/threads-max")),
    ("readings/boot.txt", ("cat", "/proc/uptime", "/proc/sys/kernel/random/boot_id")),
    ("readings/containers.txt", ("docker", "ps", "-a", "-n", "40", "--no-trunc")),
    ("configuration/docker-daemon.json", ("cat", "/etc/docker/daemon.json")),
    ("configuration/nvidia-params.txt", ("cat", "/proc/driver/nvidia/params")),
    ("configuration/sshd_config", ("cat", "/etc/ssh/sshd_config")),
    ("configuration/hosts", ("cat", "/etc/hosts")),
    ("configuration/resolv.conf", ("cat", "/etc/resolv.conf")),
    ("configuration/cmdline", ("cat", "/proc/cmdline")),
    ("versions/os-release", ("cat", "/etc/os-release")),
    ("versions/driver.txt", ("cat", "/proc/driver/nvidia/version")),
    ("versions/docker.txt", ("docker", "version")),
    ("versions/containers-toolkit.txt", ("nvidia-ctk", "--version")),
    (
        "versions/python-packages.txt",
        ("python3", "-m", "pip", "list", "--format=freeze", "--disable-pip-version-check"),
    ),
)


class Collector:
    """Asks one machine, one command after the other, until the time is up. Everything is redacted on the way in."""

    def __init__(self, host: Host, redact: Redactor, until: float, clock: Callable[[], float] = monotonic) -> None:
        self._host, self._redact, self._until, self._clock = host, redact, until, clock
        self.gone = ""  # why the machine no longer answers

    def _not_asked(self) -> str:
        return self._redact.text(f"not asked: {self.gone or 'the time was up'}")

    def collect(self, logs: tuple[str, ...]) -> Iterator[Piece]:
        """Every piece, told apart where it could not be read. Containers and jobs come from what was seen before."""
        seen: dict[str, str] = {}
        first, *others = plan(logs)
        yield self.read(*first)
        with ThreadPoolExecutor(AT_ONCE) as pool:
            try:
                for piece in pool.map(lambda p: self.read(*p), others):
                    seen[piece.name] = piece.text
                    yield piece
            except BaseException:  # Ctrl-C: what the other threads read ends as well
                self._host.close()
                raise
        yield from self._containers()
        for pid in gpu_pids(seen.get("readings/gpu-processes.csv", ""))[:PROCESSES]:
            yield self._environment(pid)

    def read(self, name: str, argv: tuple[str, ...]) -> Piece:
        """One command's answer, secrets replaced."""
        raw = self._raw(name, argv)
        return raw.model_copy(update={"text": self._clean(name, raw.text)})

    def _clean(self, name: str, text: str) -> str:
        if name.endswith(".json"):
            try:
                return json.dumps(self._redact.data(json.loads(text)), indent=1)
            except (ValueError, RecursionError):
                return self._redact.text(text)
        return self._redact.text(without_cut_key(text))

    def _raw(self, name: str, argv: tuple[str, ...]) -> Piece:
        left = self._until - self._clock()
        command = " ".join(self._redact.argv(argv))
        if self.gone or left <= 1:
            return Piece(name=name, command=command, problem=self._not_asked())
        try:
            done = self._host.run(argv, timeout_s=min(COMMAND_S, left), limit_bytes=LARGEST)
        except TransportError as e:
            if e.reason is UnknownReason.UNREACHABLE or name == READINGS[0][0]:
                self.gone = e.why
            return Piece(name=name, command=command, problem=self._redact.text(e.why))
        problem = "cut at the size limit" if done.truncated else ""
        if done.exit:
            problem = self._redact.text(done.err.strip()[:500]) or f"exit {done.exit}"
        return Piece(name=name, command=command, text=done.out, problem=problem, exit=done.exit, seconds=done.seconds)

    def _containers(self) -> Iterator[Piece]:
        listed = self._raw(
            "containers", ("docker", "ps", "-a", "-n", str(CONTAINERS), "--format", "{{.ID}} {{.Names}}")
        )
        for line in listed.text.splitlines()[:CONTAINERS]:
            container, _, name = line.partition(" ")
            if not re.fullmatch(r"[0-9a-f]{12,64}", container):
                continue
            folder = f"containers/{_safe(name) or container}"
            yield self.read(f"{folder}/inspect.json", ("docker", "inspect", container))
            logs = ("docker", "logs", "--timestamps", "--tail", "5000", container)
            yield self._container_log(f"{folder}/log.txt", logs)

    def _container_log(self, name: str, argv: tuple[str, ...]) -> Piece:
        """Both streams: an application's last words are mostly on the second."""
        both = ("sh", "-c", '"$@" 2>&1 | tail -c 2000000', "sh", *argv)
        return self.read(name, both).model_copy(update={"command": " ".join(argv)})

    def _environment(self, pid: str) -> Piece:
        raw = self._raw(f"configuration/environment-of-{pid}.txt", ("cat", f"/proc/{pid}/environ"))
        pairs = dict(p.partition("=")[::2] for p in raw.text.split("\0") if "=" in p)
        kept = self._redact.env({k: v for k, v in pairs.items() if ENVIRONMENT.match(k)})
        others = sorted(self._redact.text(k) for k in pairs if not ENVIRONMENT.match(k))
        rows = [*(f"{k}={v}" for k, v in sorted(kept.items())), f"# names only: {' '.join(others)}"]
        return raw.model_copy(update={"text": "\n".join(rows) + "\n" if pairs else ""})


def without_cut_key(text: str) -> str:
    """The text without the rest of a private key whose first line was cut off at the size limit."""
    end = _KEY_END.search(text)
    if not end or _KEY_BEGIN.search(text, 0, end.start()):
        return text
    return f"[the rest of a key was left out]\n{text[end.end() :]}"


def gpu_pids(csv: str) -> list[str]:
    """Process ids of nvidia-smi's list, each once."""
    return list(dict.fromkeys(m[1] for m in re.finditer(r"^(\d+),", csv, re.MULTILINE)))


def _safe(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-.")[-80:]
