"""Feeds and judges the incidents of unseen.yaml: files, logs, scripts by the readers, the rest in the short form of the situations."""

import copy
import gzip
import os
import struct
import sys
import warnings
from collections.abc import Callable
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

from pydantic import BaseModel

from runbooks.checkpoint.evidence import OtherNode
from runbooks.core.fleet import Fleet, Node
from runbooks.core.gpu_set import Gpu, GpuProcess, GpuSet
from runbooks.core.knowledge import folder_of, load_runbook
from runbooks.core.reading import Absent, Known
from runbooks.core.verdict import Certainty, Diagnosis, State
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
from tests.support.ckpt_files import need, save, state
from tests.support.ckpt_fleet import context, folder
from tests.support.yaml_file import read_yaml

Given = dict[str, Any]
ALL: list[Given] = read_yaml(Path(__file__).parent / "unseen.yaml")
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


def outside(case: Given, found: Diagnosis) -> str:
    """Of one that came open: how sure it is of a cause that is none of the answer's, even of one that is true in part."""
    if came(case, found) != "open":
        return ""
    sure = {c.certainty for c in found.causes if not c.benign and c.slug not in case["answer"]}
    return next((str(x) for x in (Certainty.CONFIRMED, Certainty.LIKELY) if x in sure), "")


def _zombie(given: Given, place: Path) -> BaseModel:
    """The kernel's log is read by the real parser."""
    log = given.pop("log", None)
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
    """`gpu`: what the driver says of it and who holds it; `kernel`: lines of its log, read by the real parser; `jobs`: the fleet's."""
    more: Given = {"host": Known[HostMemory](value=HostMemory(total=128 * GIB, available=100 * GIB))}
    if gpu := given.get("gpu"):
        total, used = (int(gpu[k] * GIB) for k in ("total_gib", "used_gib"))
        held = {int(pid): int(gib * GIB) for pid, gib in gpu.get("processes", {}).items()}
        who: Any = Known[tuple[GpuProcess, ...]](value=tuple(GpuProcess(pid=pid, used_bytes=n) for pid, n in held.items()))
        name = gpu.get("name", "GPU")
        seen = Gpu(index=0, uuid="u0", name=name, samples=(), processes=who, memory_total_bytes=total, memory_used_bytes=used)
        commands = Known[dict[int, str]](value=dict.fromkeys(held, gpu.get("command", "")))
        more |= {"gpus": Known[GpuSet](value=GpuSet(gpus=(seen,))), "commands": commands, "job_match": tuple(given.get("jobs", ()))}
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
    elif raw := given.get("hex"):
        path.write_bytes(bytes.fromhex(raw))
    elif text := given.get("latin1"):
        path.write_bytes(gzip.compress(text.encode("latin-1")))
    elif index := given.get("megatron"):
        _megatron(path, **index)
    else:
        path.write_text(given["text"], encoding="utf-8")
    options: Given = {"data": [str(path)]}
    if log := given.get("log"):
        (place / "job.log").write_text(log, encoding="utf-8")
        options["log"] = str(place / "job.log")
    fleet = Fleet(nodes=(Node(name="n1", local=True),))
    return gather_data_check(Context(fleet=fleet, target="n1", options=options, open_host=lambda n: LocalHost(n.name)))


def _megatron(path: Path, lengths: list[int], documents: list[int]) -> None:
    """Tokens of two bytes and their index: the sequences' lengths and places, and where each document begins."""
    path.write_bytes(struct.pack(f"<{sum(lengths)}H", *range(sum(lengths))))
    places = [2 * sum(lengths[:n]) for n in range(len(lengths))]
    head = b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, 8, len(lengths), len(documents))
    body = struct.pack(f"<{len(lengths)}i", *lengths) + struct.pack(f"<{len(places)}q", *places)
    path.with_suffix(".idx").write_bytes(head + body + struct.pack(f"<{len(documents)}q", *documents))


def _checkpoint(given: Given, place: Path) -> BaseModel:
    """A whole save and a newer one with what befell it; `torch`: its version on the node."""
    shelf, log = place / "ckpt", place / "job.log"
    shelf.mkdir()
    log.write_text(given["log"], encoding="utf-8")
    config = SAVES[given["files"]](shelf)
    there = config.pop("there", None)
    found = gather_checkpoint_fallback(context(folder("nvme", shelf), options={"log": str(log)}, **config))
    if version := given.get("torch"):
        found = found.model_copy(update={"torch": Known[str](value=version)})
    return found if there is None else found.model_copy(update={"others": (_elsewhere(config, place / "there", there),)})


def _elsewhere(config: Given, shelf: Path, make: Callable[[Path], None]) -> OtherNode:
    """Another node's folder on a tier of its own, as its reader gives it."""
    shelf.mkdir()
    make(shelf)
    (look,) = gather_checkpoint_fallback(context(folder("nvme", shelf), **config)).tiers
    assert isinstance(look.candidates, Known)
    return OtherNode(node="b", tier="nvme", steps=Known[tuple[int, ...]](value=()), parts=look.candidates.value)


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
    _parts(shelf, range(32), 32)
    return ZERO | {"world_size": 128}


def _parts(shelf: Path, ranks: range, world: int) -> None:
    """ZeRO's optimizer parts of these ranks."""
    torch = need("torch")
    where = shelf / "global_step500"
    where.mkdir()
    for rank in ranks:
        part = {"optimizer_state_dict": {"base": torch.ones(8) * rank}, "ds_version": "0.9.3", "dp_world_size": world}
        torch.save(part, where / f"zero_pp_rank_{rank}_mp_rank_00_optim_states.pt")


def _half_of_the_ranks(shelf: Path) -> Given:
    """Of 16 ranks the first eight are here, the others on the other node."""
    _parts(shelf, range(8), 16)
    return ZERO | {"world_size": 16, "there": lambda other: _parts(other, range(8, 16), 16)}


def _lfs_pointer(shelf: Path) -> Given:
    """In place of the newer model lies what git keeps for a large file."""
    save("safetensors", shelf / "made", step=100)
    (shelf / "made" / "model.safetensors").rename(shelf / "checkpoint_step_100.safetensors")
    (shelf / "made").rmdir()
    text = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'4d7a' * 16}\nsize 7454630916\n"
    (shelf / "checkpoint_step_200.safetensors").write_text(text, encoding="utf-8")
    return {"naming": "checkpoint_step_{step}.safetensors"}


def _two_zips(shelf: Path) -> Given:
    _two(shelf, "torch-zip")
    return {}


def _wrapped(shelf: Path) -> Given:
    """Both saves whole, each name with the wrapper's prefix."""
    torch = need("torch")
    for step in (100, 200):
        made = state(step)
        made["model_state_dict"] = {f"module.{name}": value for name, value in made["model_state_dict"].items()}
        torch.save(made, shelf / f"checkpoint_step_{step}.pt")
    return {}


def _named_tar(shelf: Path) -> Given:
    _two(shelf, "torch-legacy")
    for path in list(shelf.iterdir()):
        path.rename(path.with_suffix(".pth.tar"))
    return {"naming": "checkpoint_step_{step}.pth.tar"}


def _empty(shelf: Path) -> Given:
    os.truncate(_two(shelf, "torch-legacy"), 0)
    return {}


def _safetensors_cut(shelf: Path) -> Given:
    """Of the newer model only the first half."""
    for step in (100, 200):
        save("safetensors", shelf / "made", step=step)
        (shelf / "made" / "model.safetensors").rename(shelf / f"checkpoint_step_{step}.safetensors")
    (shelf / "made").rmdir()
    new = shelf / "checkpoint_step_200.safetensors"
    os.truncate(new, new.stat().st_size // 2)
    return {"naming": "checkpoint_step_{step}.safetensors"}


def _two_safetensors(shelf: Path) -> Given:
    """Both models whole."""
    for step in (100, 200):
        save("safetensors", shelf / "made", step=step)
        (shelf / "made" / "model.safetensors").rename(shelf / f"checkpoint_step_{step}.safetensors")
    (shelf / "made").rmdir()
    return {"naming": "checkpoint_step_{step}.safetensors"}


def _whole_model(shelf: Path) -> Given:
    """Not the weights but the model itself, whose class is in a module that only the program has which saved it."""
    torch = need("torch")
    module = ModuleType("networks.classifiers")
    net = type("ReLayNet", (torch.nn.Linear,), {"__module__": module.__name__})
    vars(module)["ReLayNet"] = net
    with patch.dict(sys.modules, {"networks": ModuleType("networks"), module.__name__: module}), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its source is not to be had
        for step in (100, 200):
            torch.save(net(64, 33), shelf / f"checkpoint_step_{step}.pt", _use_new_zipfile_serialization=False)
    return {}


def _only_a_projector(shelf: Path) -> Given:
    """Two saves of a trainer that writes the adapter alone: no optimizer, no state of the run."""
    torch = need("torch")
    for step in (500, 1000):
        where = shelf / f"checkpoint-{step}"
        where.mkdir()
        (where / "config.json").write_text('{"model_type": "llava_llama"}\n', encoding="utf-8")
        projector = {"model.mm_projector.0.weight": torch.ones(64, 33), "model.mm_projector.0.bias": torch.ones(64)}
        torch.save(projector, where / "mm_projector.bin")
    return {"naming": "checkpoint-{step}"}


ZERO: Given = {"naming": "global_step{step}", "ranks": "zero_pp_rank_{rank}_mp_rank_00_optim_states.pt"}
SAVES: dict[str, Callable[[Path], Given]] = {
    "cut-by-eight": _cut_by_eight, "cut-in-half": _cut_in_half, "wrong-storage-size": _wrong_storage_size, "zero-of-32-ranks": _zero,
    "half-of-the-ranks": _half_of_the_ranks, "lfs-pointer": _lfs_pointer, "two-zips": _two_zips, "wrapped": _wrapped,
    "named-tar": _named_tar, "empty": _empty, "safetensors-cut": _safetensors_cut, "two-safetensors": _two_safetensors,
    "whole-model": _whole_model, "only-a-projector": _only_a_projector,
}  # fmt: skip
OWN: dict[str, Callable[[Given, Path], BaseModel]] = {
    "zombie-gpu": _zombie, "stale-rendezvous": _stale, "ssh-auth-failure": _ssh, "distributed-setup": _launch, "memory-pressure": _memory,
    "data-check": _data, "checkpoint-fallback": _checkpoint,
}  # fmt: skip
