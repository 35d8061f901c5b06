"""Who reads what: whatever is read is used by its runbook's judgment, or its use is named here. Fields are found by their names."""

import ast
import re
import typing
from collections.abc import Iterable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from runbooks.core.knowledge import folder_of, runbook_slugs
from runbooks.core.reading import Absent, Known, Source, Unknown

ROOT = Path(__file__).resolve().parents[2]
TABLES = ("tables", "gpu_table")  # modules that only show: what stands in a table decides nothing


def models(of: Any, found: set[type[BaseModel]] | None = None) -> set[type[BaseModel]]:
    """Every model that stands somewhere in that annotation; of a reading, what it holds."""
    found = set() if found is None else found
    if not (isinstance(of, type) and issubclass(of, BaseModel)):
        for part in typing.get_args(of):
            models(part, found)
    elif of not in found:
        if not issubclass(of, Known | Absent | Unknown | Source):
            found.add(of)
        for part in (*of.__pydantic_generic_metadata__["args"], *(f.annotation for f in of.model_fields.values())):
            models(part, found)
    return found


@cache
def loads(path: Path) -> frozenset[tuple[str, bool]]:
    """Names of attributes that are read in that file, and whether of `self`."""
    nodes = [n for n in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(n, ast.Attribute)]
    loaded = [n for n in nodes if isinstance(n.ctx, ast.Load)]
    return frozenset((n.attr, isinstance(n.value, ast.Name) and n.value.id == "self") for n in loaded)


def read_in(paths: Iterable[Path], of_self: bool = False) -> set[str]:
    return {name for path in paths for name, own in loads(path) if own or not of_self}


def source(model: type[BaseModel]) -> Path:
    return ROOT / f"{model.__module__.replace('.', '/')}.py"


def idle(slug: str) -> set[str]:
    """Model.field that nothing of the judgment reads: neither the runbook's own code, nor its model, nor core where that made it."""
    folder = ROOT / "runbooks" / folder_of(slug)
    all_ = models(import_module(f"runbooks.{folder.name}.evidence").Evidence)
    own = read_in(p for p in folder.rglob("*.py") if p.stem not in ("evidence", *TABLES))
    core = read_in(p for p in (ROOT / "runbooks" / "core").glob("*.py") if p.stem not in TABLES)
    return {
        f"{m.__name__}.{name}" for m in all_ for name in m.model_fields
        if name not in own | read_in([source(m)], of_self=True) | (core if ".core." in m.__module__ else set())
    }  # fmt: skip


SHOWN = "shown in the tables or with the raw readings, for a person; it decides nothing"
READER = "its reader needs it"
ENGINE = "the engine or the report needs it"
GROUP = "judged with the others of its kind, by the table of groups"
SHARED = "of a reading that several runbooks share; here it is only shown"
TARGET = "its identity or its place, for whoever acts on it or asks for it"
NOBODY = "read, and used by nobody: use it in the judgment, or name in LEFT in this file who needs it"
LEFT = {  # what a judgment leaves alone, and who needs it
    "checkpoint-fallback": {
        SHOWN: "Space.gid",
        READER: "Store.bucket Store.credentials Tier.profile Tier.region",
        TARGET: "FileHolder.start_ticks",
    },
    "container-death": {
        SHOWN: "ContainerFacts.created_at ContainerFacts.env_names ContainerFacts.network_mode ContainerFacts.privileged "
               "MountPoint.propagation MountPoint.rw",
        READER: "ContainerFacts.devices ContainerInside.pids HostFacts.clock_at",
        SHARED: "RayHead.stopped RayNode.resources Served.halted",
    },
    "data-check": {
        SHOWN: "DataFile.bytes DataFile.final_newline Evidence.node",
        ENGINE: "Evidence.hands_off Evidence.taken_at",
        TARGET: "DataFile.path",
    },
    "distributed-setup": {
        SHOWN: "AgentLaunch.local_addr AgentLaunch.max_restarts AgentLaunch.node_rank AgentLaunch.script_digest",
        READER: "AgentLaunch.master_port",
        ENGINE: "Evidence.taken_at",
    },
    "host-limits": {
        SHOWN: "ClockKeeper.off_s Evidence.jobs",
        READER: "Gauge.made",
        GROUP: "Evidence.disks Evidence.files Evidence.inotify Evidence.locked Evidence.shm",
        ENGINE: "Evidence.hands_off Evidence.taken_at",
    },
    "memory-pressure": {
        SHOWN: "HostMemory.swap_free",
        READER: "HostMemory.boot",
        ENGINE: "Evidence.hands_off",
        SHARED: "Gpu.bus_id Gpu.compute_mode Gpu.ecc_corrected_volatile Gpu.ecc_uncorrected_volatile Gpu.memory_reserved_bytes "
                "Gpu.mig Gpu.power_limit_w Gpu.pstate Gpu.recovery_action Gpu.remap "
                "Gpu.samples Gpu.sm_clock_max_mhz Gpu.sm_clock_mhz Gpu.temperature_c Gpu.throttle Gpu.uuid GpuError.bus_id "
                "GpuProcess.sm_percent GpuSample.at_s GpuSample.memory_percent GpuSample.power_w GpuSample.sm_percent GpuSet.driver "
                "GpuSet.pci_count RowRemap.correctable RowRemap.failed RowRemap.pending RowRemap.uncorrectable",
    },
    "ray-job": {
        SHOWN: "RayJob.entrypoint StartPhase.usual_s WorkerActivity.command",
        SHARED: "KernelOom.cgroup KernelOom.memcg",
    },
    "ssh-auth-failure": {
        SHOWN: "Accepted.address FarSide.log_source Offer.ciphers Offer.host_keys Offer.kex Offer.macs Wire.address Wire.offer",
        READER: "Wire.addresses",
    },
    "stale-rendezvous": {
        SHOWN: "AgentLaunch.local_addr DynamicState.deadline Evidence.start_data Key.created LegacyState.waiting "
               "StoreView.host_node",
        READER: "Evidence.backends",
        TARGET: "Agent.start_ticks Agent.uid Worker.start_ticks",
    },
    "fleet-sync": {
        SHARED: "OwnNames.environment OwnNames.log OwnNames.platform OwnNames.platform_header OwnNames.project OwnNames.service "
                "OwnNames.user Pod.gpus Pod.gpus_wanted Pod.image Pod.interruptible Pod.ip Pod.last_change Pod.runtime Pod.ssh_port "
                "Pod.stop Pod.uptime_s Pod.wants_ssh TaskRow.claimed",
    },
    "stuck-spawning": {READER: "Pod.image Pod.uptime_s Usual.image", TARGET: "PodProcess.start_ticks", SHARED: "WorkerRow.ended"},
    "zombie-gpu": {
        SHOWN: "Earlier.gpu_power_w Gpu.compute_mode Gpu.pstate Gpu.sm_clock_max_mhz Gpu.sm_clock_mhz "
               "Gpu.temperature_c Gpu.throttle GpuSet.cuda GpuSet.driver Process.children Process.parent_state Process.pid_namespace "
               "Process.user RowRemap.uncorrectable",
        READER: "Facts.clock_s Facts.hostname LeaderView.zombies",
        TARGET: "Process.uid",
    },
}  # fmt: skip


def left(slug: str, *reasons: str) -> set[str]:
    return {name for why, names in LEFT[slug].items() if not reasons or why in reasons for name in names.split()}


@pytest.mark.parametrize("slug", runbook_slugs())
def test_what_is_read_is_used(slug: str) -> None:
    found = idle(slug)
    if slug not in LEFT:  # a new runbook needs no row for what every evidence has
        assert found - {"Evidence.node", "Evidence.taken_at", "Evidence.hands_off"} == set(), NOBODY
        return
    assert found - left(slug) == set(), NOBODY
    assert left(slug) - found == set(), "these are used now: take them out of LEFT in this file"


def test_whoever_is_said_to_need_it_names_it() -> None:
    for why, folders in {READER: ["tasks"], ENGINE: ["flows", "tasks", "runbooks/core"]}.items():
        texts = [p.read_text(encoding="utf-8") for folder in folders for p in (ROOT / folder).rglob("*.py")]
        named = {word for text in texts for word in re.findall(r"\w+", text)}
        assert {x for slug in LEFT for x in left(slug, why) if x.rpartition(".")[2] not in named} == set(), why


def test_of_host_limits_each_group_is_judged() -> None:
    from runbooks.host.diagnose import OF

    assert {x.rpartition(".")[2] for x in left("host-limits", GROUP)} <= set(OF)


def test_the_models_of_an_evidence_are_found() -> None:
    """In readings, tuples and mappings, and those of core."""
    for slug, some in {"container-death": {"KernelOom", "RayHead"}, "memory-pressure": {"RowRemap"}, "data-check": {"DataFile"}}.items():
        evidence = import_module(f"runbooks.{folder_of(slug)}.evidence").Evidence
        assert some <= {m.__name__ for m in models(evidence)}
