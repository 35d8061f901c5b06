"""Reads a node before a distributed launch: GPUs, versions, interfaces, the port's holder, memory, configuration.

Argument: port, python (or null), config (path or null). One JSON answer.
"""

import glob
import json
import os
import re
import resource
import subprocess
import sys
import time
from ctypes.util import find_library
from typing import Any

from tasks.launch.probes.pci_paths import pci_paths
from tasks.remote.probes.mesh import proxy
from tasks.remote.probes.proc import HZ, MARK, command, link, names, pids, read, stat

VERSIONS = (
    "import json,sys,torch;"
    "n=torch.cuda.nccl.version() if torch.cuda.is_available() else None;"
    "print(json.dumps({'python':sys.version.split()[0],'torch':torch.__version__,'cuda':str(torch.version.cuda),"
    "'nccl':'.'.join(map(str,n)) if n else ''}))"
)
ENV = re.compile(
    r"^(NCCL_\w+|RANK|WORLD_SIZE|LOCAL_RANK|MASTER_ADDR|MASTER_PORT|GLOO_SOCKET_IFNAME|CUDA_VISIBLE_DEVICES)$"
)


LAUNCHER = re.compile(r"(?:^|/)torchrun$|^torch\.distributed\.(?:run|launch)$|torch/distributed/(?:run|launch)\.py$")
TOLD = re.compile(r"^(PET_\w+|MASTER_PORT|SLURM_(?:JOB_ID|NTASKS_PER_NODE|TASKS_PER_NODE|STEP_TASKS_PER_NODE))$")


def processes(holding: "list[int]") -> "dict[str, Any]":
    """Who holds the port, and every torchrun on the node with what Slurm told it."""
    boot = time.time() - float((read("/proc/uptime") or "0").split()[0])
    held, launchers = [], []
    above = {now["ppid"] for now in map(stat, holding) if now is not None}  # a launcher's first worker may be what listens
    for pid in pids():
        now = stat(pid)
        args = [a for a in (read("/proc/%d/cmdline" % pid, 1 << 17) or "").split("\0") if a][:400]
        if now is None or now["state"] in "ZX" or MARK in args:
            continue
        one = {"pid": pid, "started_s": boot + now["start_ticks"] / HZ}
        if pid in holding:
            held.append(dict(one, command=command(pid, now["state"], now["comm"])[:1000]))
        if any(LAUNCHER.search(a) for a in args[:8]) and not re.search(r"(?:^|/)(?:ba|da|z)?sh$|srun$|ssh$", args[0]):
            pairs = [e.split("=", 1) for e in (read("/proc/%d/environ" % pid, 8 << 20) or "").split("\0") if "=" in e]
            env = {k: v[:200] for k, v in pairs if TOLD.match(k)}
            launchers.append(dict(one, argv=args, env=env, listens=pid in holding or pid in above))
    return {"holders": held, "launchers": launchers[:256]}


def tool(*argv: str, seconds: float = 15) -> "dict[str, Any]":
    """Output of a command, or why there is none."""
    try:
        done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=seconds)
    except FileNotFoundError:
        return {"error": "tool-missing", "what": argv[0]}
    except subprocess.TimeoutExpired:
        return {"error": "timed-out", "what": "%s gave no answer within %s s" % (argv[0], seconds)}
    except OSError as e:
        return {"error": "denied" if isinstance(e, PermissionError) else "failed", "what": str(e)}
    text = done.stdout.decode("utf-8", "replace")
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        return {"error": "failed", "what": (said or [text])[-1][:300]}
    return {"text": text}


def holders(port: int) -> "tuple[bool, list[int]]":
    """Whether somebody listens on the port, and who."""
    rows = [r.split() for f in ("tcp", "tcp6") for r in (read("/proc/net/%s" % f, 1 << 24) or "").splitlines()[1:]]
    inodes = {r[9] for r in rows if len(r) > 9 and r[3] == "0A" and int(r[1].rsplit(":", 1)[1], 16) == port}
    wanted = {"socket:[%s]" % i for i in inodes}
    found = []
    for pid in pids() if wanted else []:
        fds = names("/proc/%d/fd" % pid) or []
        if any(link("/proc/%d/fd/%s" % (pid, fd)) in wanted for fd in fds):
            found.append(pid)
    return bool(inodes), found


def config(path: "str | None") -> "dict[str, Any] | None":
    """The training configuration."""
    if not path:
        return None
    try:
        with open(path, "rb") as f:
            raw = f.read((1 << 20) + 1)
        return (
            {"text": raw.decode("utf-8")} if len(raw) <= 1 << 20 else {"error": "failed", "what": "larger than 1 MiB"}
        )
    except UnicodeDecodeError as e:
        return {"error": "unparsable", "what": "not UTF-8 (byte %d)" % e.start}
    except OSError as e:
        return {"error": "denied" if isinstance(e, PermissionError) else "failed", "what": str(e)}


def main() -> None:
    """Answer on standard output."""
    ask = json.loads(sys.argv[1])
    limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    shm = os.statvfs("/dev/shm") if os.path.isdir("/dev/shm") else None  # noqa: S108
    busy, who = holders(ask["port"])
    answer = {
        "clock_s": time.time(),
        "gpus": tool("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"),
        "driver_there": os.path.exists("/proc/driver/nvidia/version") or bool(glob.glob("/dev/nvidia[0-9]*")),
        "versions": tool(ask["python"], "-c", VERSIONS, seconds=60) if ask.get("python") else None,
        "addresses": tool("ip", "-j", "addr", "show"),
        "routes": tool("ip", "-j", "-4", "route", "show"),
        "port_open": busy,
        "port_holders": who,
        "shm_bytes": shm.f_blocks * shm.f_frsize if shm else 0,
        "rdma_devices": names("/sys/class/infiniband") or [],
        "rdma_library": bool(find_library("ibverbs")),
        "memlock_bytes": None if limit == resource.RLIM_INFINITY else limit,
        "env": {k: v for k, v in os.environ.items() if ENV.match(k)},
        "config": config(ask.get("config")),
        "batch": config(ask.get("batch")),
        "processes": processes(who),
        "pci": pci_paths(),
        "proxy": proxy(),
    }
    print(json.dumps(answer))


main()
