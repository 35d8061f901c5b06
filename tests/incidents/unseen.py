"""Feeds and judges the incidents of unseen.yaml: files, logs, scripts by the readers, the rest in the short form of the situations."""

import copy
import gzip
import os
import struct
from collections.abc import Callable
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel

from runbooks.core.fleet import Fleet, Node
from runbooks.core.gpu_set import Gpu, GpuSet
from runbooks.core.knowledge import folder_of, load_runbook
from runbooks.core.reading import Absent, Known
from runbooks.core.verdict import Certainty, Diagnosis, State
from runbooks.gpu.parsers.kernel_log import parse_kernel_log
from runbooks.launch.parsers.slurm_batch import parse_batch
from runbooks.memory.evidence import HostMemory
from runbooks.memory.parsers.kernel_ooms import HostOom, parse_host_ooms
from runbooks.parsers.ssh_text import parse_sshd_log
from tasks.checkpoint.read import gather_checkpoint_fallback
from tasks.context import Context
from tasks.data.read import gather_data_check
from tasks.transport.local import LocalHost
from tests.incidents import test_neighbours as neighbours
from tests.runbooks import more_sick
from tests.runbooks.gpu import build as zombies
from tests.runbooks.rendezvous import build as stale
from tests.support.ckpt_files import need, save
from tests.support.ckpt_fleet import context, folder

Given = dict[str, Any]
ALL: list[Given] = yaml.safe_load((Path(__file__).parent / "unseen.yaml").read_text(encoding="utf-8"))
GIB = 1 << 30


def read(case: Given, place: Path) -> BaseModel:
    """Its evidence."""
    own = OWN.get(case["runbook"])
    given = dict(case["given"])
    return own(given, place) if own else neighbours.read(case["runbook"], given, place)


def judge(case: Given, place: Path) -> Diagnosis:
    """By default limits."""
    module = import_module(f"runbooks.{folder_of(case['runbook'])}.diagnose")
    limits = module.Limits.model_validate(load_runbook(case["runbook"]).limit_values())
    found: Diagnosis = module.diagnose(read(copy.deepcopy(case), place), limits)
    return found


def came(case: Given, found: Diagnosis) -> str:
    """How the judgment stands to what was really wrong. Stricter than for the neighbours where no cause can be told."""
    plain = neighbours.came(case, found)
    standing = [c for c in found.causes if c.certainty is not Certainty.RULED_OUT]
    if plain == "harmful":
        return plain
    if case.get("or_well") and found.state is State.HEALTHY and all(c.slug in case["answer"] for c in standing):
        return "right"
    if case.get("unclear"):
        if standing and standing[0].certainty is not Certainty.POSSIBLE:
            return "right" if standing[0].slug in case["answer"] else "wrong"
        return "open" if found.state is State.CANNOT_TELL else "wrong"
    if plain in ("wrong", "blind") and any(c.slug in case.get("partly", ()) for c in standing):
        return "open"
    return plain


def _zombie(given: Given, place: Path) -> BaseModel:
    """Of the kernel's log what the reader takes."""
    log = given.pop("log", None)
    given["kernel"] = [k for k in given.get("kernel", ()) if parse_kernel_log(f"[{k['at_s']:.6f}] {k['line']}")]
    found = zombies.evidence(given)
    return found if log is None else found.model_copy(update={"log": Known[tuple[str, ...]](value=tuple(log))})


def _stale(given: Given, place: Path) -> BaseModel:
    """A job without etcd: its store is a c10d one."""
    where = given.pop("c10d")
    none = Absent(proof="no etcd backend")
    return stale.evidence(given).model_copy(update={"endpoints": (where,), "backends": ("c10d",), "etcd": none, "runs": none})


def _ssh(given: Given, place: Path) -> BaseModel:
    log = parse_sshd_log(given.pop("far_log", ""))
    if log:
        given["far"] = given["far"] | {"log": [line.model_dump(mode="json") for line in log]}
    return neighbours.read("ssh-auth-failure", given, place)


def _launch(given: Given, place: Path) -> BaseModel:
    if text := given.pop("batch_text", ""):
        given["batch"] = parse_batch(text).model_dump()
    interfaces = {n: v.pop("interfaces", None) for n, v in given["nodes"].items()}
    for name, faces in interfaces.items():
        if faces:
            given["nodes"][name] = given["nodes"][name] | {"interfaces": faces}
    return neighbours.read("distributed-setup", given, place)


def _memory(given: Given, place: Path) -> BaseModel:
    """`gpu`: what the driver says of it after the run; `kernel`: lines of its log, read by the real parser."""
    more: Given = {"host": Known[HostMemory](value=HostMemory(total=128 * GIB, available=100 * GIB))}
    if gpu := given.get("gpu"):
        total, used = (int(gpu[k] * GIB) for k in ("total_gib", "used_gib"))
        nobody: Any = Known[tuple[Any, ...]](value=())
        seen = Gpu(index=0, uuid="u0", name="GPU", samples=(), processes=nobody, memory_total_bytes=total, memory_used_bytes=used)
        more |= {"gpus": Known[GpuSet](value=GpuSet(gpus=(seen,))), "commands": Known[dict[int, str]](value={})}
    if text := given.get("kernel", ""):
        zero = (more_sick.AT - timedelta(seconds=7200)).timestamp()
        more |= {"killed": Known[tuple[HostOom, ...]](value=parse_host_ooms(text, zero))}
    found = more_sick.memory(given.get("log", ""), **more)
    return found if "log" in given else found.model_copy(update={"log": Absent(proof="no log was named")})


def _data(given: Given, place: Path) -> BaseModel:
    """A file of that name, read where it lies."""
    path = place / given["name"]
    if share := given.get("gzip_cut"):
        packed = gzip.compress(b"".join(b'{"url": "https://example.org/%d", "summary": "%x"}\n' % (i, i**9) for i in range(2000)))
        path.write_bytes(packed[: int(len(packed) * share)])
    elif count := given.get("tokens"):
        path.write_bytes(struct.pack(f"<{count}H", *range(count)))
    else:
        path.write_text(given["text"], encoding="utf-8")
    options: Given = {"data": [str(path)]}
    if log := given.get("log"):
        (place / "job.log").write_text(log, encoding="utf-8")
        options["log"] = str(place / "job.log")
    fleet = Fleet(nodes=(Node(name="n1", local=True),))
    return gather_data_check(Context(fleet=fleet, target="n1", options=options, open_host=lambda n: LocalHost(n.name)))


def _checkpoint(given: Given, place: Path) -> BaseModel:
    """A whole save and a newer one with what befell it."""
    shelf, log = place / "ckpt", place / "job.log"
    shelf.mkdir()
    log.write_text(given["log"], encoding="utf-8")
    return gather_checkpoint_fallback(context(folder("nvme", shelf), options={"log": str(log)}, **SAVES[given["files"]](shelf)))


def _two(shelf: Path, form: str) -> Path:
    for step in (100, 200):
        save(form, shelf / "made", step=step)
        (shelf / "made" / "ckpt.pt").rename(shelf / f"checkpoint_step_{step}.pt")
    (shelf / "made").rmdir()
    return shelf / "checkpoint_step_200.pt"


def _cut_by_eight(shelf: Path) -> Given:
    new = _two(shelf, "torch-legacy")
    os.truncate(new, new.stat().st_size - 8)
    return {}


def _cut_in_half(shelf: Path) -> Given:
    new = _two(shelf, "torch-zip")
    os.truncate(new, new.stat().st_size // 2)
    return {}


def _wrong_storage_size(shelf: Path) -> Given:
    """A storage of the old format begins with its own size: 64 * 33 numbers here."""
    new = _two(shelf, "torch-legacy")
    data = new.read_bytes()
    at = data.rindex(struct.pack("<q", 64 * 33))
    new.write_bytes(data[:at] + struct.pack("<q", -9223011547364714763) + data[at + 8 :])
    return {}


def _zero(shelf: Path) -> Given:
    """A save of 32 ranks, and a job that has 128 now."""
    torch = need("torch")
    where = shelf / "global_step500"
    where.mkdir()
    for rank in range(32):
        part = {"optimizer_state_dict": {"base": torch.ones(8) * rank}, "ds_version": "0.9.3", "dp_world_size": 32}
        torch.save(part, where / f"zero_pp_rank_{rank}_mp_rank_00_optim_states.pt")
    return {"naming": "global_step{step}", "ranks": "zero_pp_rank_{rank}_mp_rank_00_optim_states.pt", "world_size": 128}


SAVES: dict[str, Callable[[Path], Given]] = {
    "cut-by-eight": _cut_by_eight, "cut-in-half": _cut_in_half, "wrong-storage-size": _wrong_storage_size, "zero-of-32-ranks": _zero,
}  # fmt: skip
OWN: dict[str, Callable[[Given, Path], BaseModel]] = {
    "zombie-gpu": _zombie, "stale-rendezvous": _stale, "ssh-auth-failure": _ssh, "distributed-setup": _launch, "memory-pressure": _memory,
    "data-check": _data, "checkpoint-fallback": _checkpoint,
}  # fmt: skip
