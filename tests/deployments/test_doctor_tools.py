"""doctor names the programs that a node lacks: those that the readings call which the fleet file makes applicable there."""

import ast
import os
import shutil
import sys
from pathlib import Path

import pytest

from deployments.doctor.check import Check
from deployments.doctor.fleet import check_fleet
from flows.node_tools import tools_on
from flows.specs import SLUGS
from runbooks.core.fleet import Fleet
from runbooks.core.knowledge import folder_of
from runbooks.core.node_tools import TOOLS, NodePart
from tasks.remote import node_basics
from tasks.remote.program import source_of
from tasks.remote.tools import modules_of, tools_of

NEEDED = ("sh", "id", "date", "head", "grep", "ls")  # by the look itself
OTHERS = {  # that readers call: they are on every node, or come with what they are asked about
    "cat", "env", "python", "sh", "stat", "tail", "timeout", "true",
    "getent", "journalctl", "ssh", "ssh-keygen", "supervisorctl", "systemctl",
}  # fmt: skip
WORDS = {"comm", "date", "groups", "head", "hostname", "id", "nologin", "postgres", "sshd", "yes"}  # keys and names, no commands
CONTAINER = {"name": "trainer", "node": "a", "engine": ["podman", "--remote"]}


@pytest.mark.parametrize(
    ("slug", "tools"),
    [
        ("zombie-gpu", ("nvidia-smi", "ss", "dmesg")),
        ("container-death", ("ss", "dmesg", "curl", "modinfo")),
        ("ray-job", ("nvidia-smi", "dmesg", "curl")),
        ("checkpoint-fallback", ("dmesg",)),
        ("memory-pressure", ("nvidia-smi", "dmesg")),
        ("data-check", ()),
        ("host-limits", ("smartctl",)),
        ("stale-rendezvous", ()),
        ("distributed-setup", ("nvidia-smi", "ip")),
    ],
)
def test_the_programs_come_from_the_readers(slug: str, tools: tuple[str, ...]) -> None:
    assert tools_of(folder_of(slug)) == tools


def firsts(text: str) -> set[str]:
    """First words of lists, tuples and calls."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        parts = node.elts if isinstance(node, ast.Tuple | ast.List) else node.args if isinstance(node, ast.Call) else []
        if parts and isinstance(parts[0], ast.Constant) and isinstance(parts[0].value, str):
            found.add(parts[0].value)
    return found


def test_a_reader_calls_no_program_that_the_table_does_not_know() -> None:
    """What is installed here and stands first in a list or call of a reader is a command, or a word that is named above."""
    readers = {m for slug in SLUGS for m in modules_of(folder_of(slug)) if not m.startswith("tasks.transport")}
    assert "tasks.remote.probes.sockets" in readers
    called = {w for m in readers for w in firsts(source_of(m)) if w.isidentifier() or "-" in w}
    programs = {w for w in called if w in TOOLS or w in OTHERS or shutil.which(w)}
    assert programs - TOOLS.keys() - OTHERS - WORDS == set()
    assert programs >= TOOLS.keys()


def of_nodes(*nodes: dict[str, object], **sections: object) -> Fleet:
    return Fleet.model_validate({"nodes": [{"local": True} | n for n in nodes], **sections})


def test_only_what_the_sections_of_a_node_make_applicable_is_wanted() -> None:
    ray = {"head": "a", "nodes": {"10.0.0.2": "b"}}
    fleet = of_nodes({"name": "a"}, {"name": "b"}, {"name": "c", "gpus": 0}, ray=ray, containers=[CONTAINER],
                     launches=[{"name": "x", "nodes": ["a", "b"]}])  # fmt: skip
    of = {n.name: {t.program: t.runbooks for t in tools_on(fleet, n)} for n in fleet.nodes}
    assert of["a"].keys() == {*TOOLS, "podman"}
    assert of["b"].keys() == {"nvidia-smi", "ss", "ip", "dmesg", "smartctl"}, "no container, no dashboard"
    assert of["c"].keys() == {"ss", "dmesg", "smartctl"}, "no GPU either"
    assert of["a"]["ss"] == ("zombie-gpu", "container-death")
    assert of["c"]["ss"] == ("zombie-gpu",)
    assert of["b"]["ip"] == ("distributed-setup",)


def test_a_label_gives_the_path_of_nvidia_smi_and_of_nothing_else() -> None:
    fleet = of_nodes({"name": "a", "labels": {"nvidia-smi": "/opt/smi", "ip": "10.0.0.1"}}, launches=[{"name": "x", "nodes": ["a"]}])
    assert {t.program for t in tools_on(fleet, fleet.nodes[0])} == {"/opt/smi", "ss", "ip", "dmesg", "smartctl"}


class Bare:
    """This machine with these programs alone."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        for name in NEEDED:
            self.add(name)
        folder.joinpath("python3").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')  # a link would look for its home beside itself
        folder.joinpath("python3").chmod(0o755)

    def add(self, name: str) -> None:
        self.folder.joinpath(name).symlink_to(shutil.which(name) or "/bin/true")


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bare:
    made = Bare(tmp_path / "bin")
    monkeypatch.setenv("PATH", str(made.folder))
    monkeypatch.setattr("tasks.transport.local.SBIN", ())
    monkeypatch.setattr(node_basics, "HAS", {NodePart.NVIDIA: "true", NodePart.DISKS: "true"})
    return made


def look(**sections: object) -> Check:
    (check,) = check_fleet(of_nodes({"name": "a"}, **sections))
    return check


def test_each_missing_program_is_named_with_its_package_and_what_is_not_read(bare: Bare) -> None:
    check = look(containers=[CONTAINER])
    assert check.state == "FAULT"
    for said in (
        "no nvidia-smi: zombie-gpu, memory-pressure cannot read the GPUs", "no podman: container-death cannot read the containers",
        "no ss: zombie-gpu, container-death cannot read how much", "no dmesg: ", "no smartctl: host-limits", "no modinfo: ",
    ):  # fmt: skip
        assert said in check.says, check.says
    assert "no curl" not in check.says
    for fix in ("nvidia-utils-", "install podman there, or correct `engine`", "install iproute2 there", "smartmontools", "kmod"):
        assert fix in check.fix, check.fix
    assert check.says.index("no nvidia-smi") < check.says.index("no ss")


def test_what_is_there_or_of_no_use_is_not_missed(bare: Bare, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_basics, "HAS", {NodePart.NVIDIA: "false", NodePart.DISKS: "false"})
    assert [w for w in ("nvidia-smi", "modinfo", "smartctl") if f"no {w}" in look(containers=[CONTAINER]).says] == []
    bare.add("ss")
    bare.add("journalctl")  # in place of dmesg
    check = look()
    assert (check.state, check.fix) == ("ok" if os.geteuid() == 0 else "note", ""), check.says


def test_a_part_is_seen_where_the_node_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the file that the kernel gives each PCI device: an NVIDIA display device, and no bridge or card of another maker."""
    test = node_basics.HAS[NodePart.NVIDIA]
    for n, (alias, there) in enumerate({
        "pci:v000010DEd00002330sv000010DEsd000016C1bc03sc02i00": True,
        "pci:v000010DEd000022A3sv000010DEsd00001796bc06sc80i00": False,
        "pci:v00001002d000074A1sv00001002sd000074A1bc03sc80i00": False,
    }.items()):  # fmt: skip
        device = tmp_path / str(n) / "0000:01:00.0"
        device.mkdir(parents=True)
        device.joinpath("modalias").write_text(alias)
        asked = test.replace("/sys/bus/pci/devices", str(device.parent))
        assert (os.system(asked) == 0) is there, alias  # noqa: S605 - the command of the look itself
