"""Loads one checkpoint with the node's torch as the last proof: in a child without network, that can write no file, with
limits of memory and time, weights only. Changes nothing. JSON argument: {path, form, files, seconds, bytes}."""

from __future__ import annotations

import ctypes
import json
import os
import resource
import select
import signal
import sys
import time
from typing import Any

NEWUSER, NEWNET, NO_NEW_PRIVS = 0x10000000, 0x40000000, 38


def cut_network() -> bool:
    """A network namespace of its own, where nothing but an unused loopback is; False if the node does not let us."""
    libc = ctypes.CDLL(None, use_errno=True)
    return any(libc.unshare(flags) == 0 for flags in (NEWNET, NEWUSER | NEWNET))


def limit(seconds: float, most_bytes: int) -> None:
    """Memory, CPU time, no files, no core, no new privileges."""
    resource.setrlimit(resource.RLIMIT_AS, (most_bytes, most_bytes))
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 1))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    ctypes.CDLL(None).prctl(NO_NEW_PRIVS, 1, 0, 0, 0)


def count(value: Any) -> int:
    """Tensors below a value."""
    import torch

    if isinstance(value, torch.Tensor):
        return 1
    if isinstance(value, dict):
        return sum(count(v) for v in value.values())
    return sum(count(v) for v in value) if isinstance(value, (list, tuple)) else 0


def load(ask: dict[str, Any]) -> tuple[str, int]:
    """(torch version, tensors). Raises whatever the library raises."""
    import torch

    tensors = 0
    if ask["form"] == "dcp":
        from torch.distributed.checkpoint.state_dict_loader import _load_state_dict_from_keys

        return torch.__version__, count(_load_state_dict_from_keys(checkpoint_id=ask["path"]))
    for name in ask["files"] or [""]:
        path = os.path.join(ask["path"], name) if name else ask["path"]
        if path.endswith(".safetensors"):
            from safetensors.torch import load_file

            tensors += len(load_file(path))
        else:
            mapped = {"mmap": True} if ask["form"] != "torch-legacy" else {}
            tensors += count(torch.load(path, map_location="cpu", weights_only=True, **mapped))
    return torch.__version__, tensors


def child(ask: dict[str, Any], out: int) -> None:
    """Loads and answers on a pipe."""
    try:
        limit(ask["seconds"], ask["bytes"])
        version, tensors = load(ask)
        answer: dict[str, Any] = {"ok": True, "torch": version, "tensors": tensors}
    except BaseException as e:
        answer = {"ok": False, "error": ("%s: %s" % (type(e).__name__, e))[:1500]}
    os.write(out, json.dumps(answer).encode())
    os._exit(0)


def main(ask: dict[str, Any]) -> dict[str, Any]:
    """Waits for the child, but not for ever."""
    os.environ.update(CUDA_VISIBLE_DEVICES="", PYTHONDONTWRITEBYTECODE="1", OMP_NUM_THREADS="1")
    alone, begun = cut_network(), time.monotonic()
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        child(ask, write)
    os.close(write)
    ready = select.select([read], [], [], ask["seconds"])[0]
    data = os.read(read, 65536) if ready else b""
    if not data:
        os.kill(pid, signal.SIGKILL)
    status = os.waitpid(pid, 0)[1]
    why = "took longer than %d s" % ask["seconds"] if not ready else "it died of signal %d" % (status & 127)
    answer = json.loads(data.decode()) if data else {"ok": False, "error": why}
    return dict(answer, alone=alone, seconds=round(time.monotonic() - begun, 2))


if __name__ == "__main__":
    json.dump(main(json.loads(sys.argv[1])), sys.stdout)
