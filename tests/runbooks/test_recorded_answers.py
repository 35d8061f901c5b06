"""Answers of other programs as their versions really wrote them (tests/data/versions): each parser reads what a person reads there.

`python -m tests.runbooks.test_recorded_answers` writes the table of all recorded versions anew."""

import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from pydantic import BaseModel

from tests.runbooks import test_cuda_oom_versions, test_recorded_versions
from tests.runbooks.rendezvous import test_state_versions

FOLDER = Path(__file__).parents[1] / "data/versions"
TABLE = FOLDER / "README.md"
UNIT = {"MiB": 1 << 20, "GiB": 1 << 30}
HERE: dict[str, Iterable[str]] = {  # by what is read: the recordings that stand in the test's own file
    "the kernel's words about a kill for memory": test_recorded_versions.KERNEL,
    "nvidia-smi -q -x (influxdata/telegraf)": test_recorded_versions.SMI,
    "the log of sshd": test_recorded_versions.SSHD,
    "State.Error of a container whose command is not there": test_recorded_versions.DOCKER,
    "the message of a Ray job that failed": test_recorded_versions.RAY,
    "/health, /version and /v2/keys of etcd": test_recorded_versions.ETCD,
    "an out-of-memory error of torch, made from its source": test_cuda_oom_versions.WORDS,
    "the rendezvous state of torch, pickled by the classes of each release": test_state_versions.STATES,
}
RECORDED = {  # by what is read: what this project recorded itself, and where that is read
    "every query of nvidia-smi, driver 580.159": "tests/data/h100",
    "Ray's answers and messages, 2.60.0 as head": "tests/tasks/ray, tests/data/ray",
    "every answer of a container engine, Docker 20.10.24 and Podman 4.3.1 as Debian 12 has them": "tests/tasks/container",
    "etcd 3.4, whole": "tests/tasks/rendezvous",
    "sshd 9.2, whole": "tests/tasks/ssh",
    "rendezvous states of torch 2.13": "tests/runbooks/rendezvous/test_decoder.py",
    "safetensors 0.8 and the zip of torch 2.13": "tests/runbooks/checkpoint",
}
NOT_HAD = {
    "RunPod's REST and GraphQL, Railway's GraphQL": "no public text of a real answer; tests/spawning hold the forms of their documentation",
    "headers of safetensors before 0.8, zips of torch before 2.13": "not looked for; both formats say their version in the file",
    "rendezvous states of torch 1.9 to 1.12": "no public text holds one; 1.13 has the same fields",
    "alarms and counts of etcd's gateway before 3.4": "no public text of an answer; the paths are those of its documentation",
}


class Recording(NamedTuple):
    """One text of one version."""

    file: str
    version: str
    known_by: str
    source: str
    text: str
    wanted: Any

    def read(self) -> Any:
        """What the product's parser makes of it."""
        return parser_of(self.file)(self.text)


def head_of(file: str) -> dict[str, Any]:
    """A file of recordings as it is."""
    found: dict[str, Any] = yaml.safe_load((FOLDER / file).read_text(encoding="utf-8"))
    return found


def files() -> list[str]:
    """Names of all files of recordings."""
    return sorted(p.name for p in FOLDER.glob("*.yaml"))


def parser_of(file: str) -> Callable[[str], Any]:
    """The product's parser of such texts; one that takes secrets out gets a text as it is."""
    module, _, name = head_of(file)["parser"].rpartition(".")
    parse: Callable[..., Any] = getattr(import_module(module), name)
    return (lambda text: parse(text, str)) if "clean" in inspect.signature(parse).parameters else parse


def recordings() -> Iterator[Recording]:
    """All of them, in the order of the files."""
    for file in files():
        for one in head_of(file)["recordings"]:
            yield Recording(file, str(one["version"]), one["known_by"], one["source"], one["text"], one["wanted"])


def plain(found: Any) -> Any:
    """What a parser gives, as JSON has it."""
    if isinstance(found, BaseModel):
        return found.model_dump(mode="json")
    return [plain(x) for x in found] if isinstance(found, tuple | list) else found


def differences(found: Any, wanted: Any, at: str = "") -> Iterator[str]:
    """Where `found` is not what is wanted; what is not named there may be anything. `12.50 MiB` are bytes."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        for name, value in wanted.items():
            yield from differences(found.get(name, "missing"), value, f"{at}.{name}")
    elif isinstance(wanted, list) and isinstance(found, list) and len(found) == len(wanted):
        for i, value in enumerate(wanted):
            yield from differences(found[i], value, f"{at}[{i}]")
    elif found != (size(wanted) if isinstance(wanted, str) else wanted):
        yield f"{at}: {found!r}, wanted {wanted!r}"


def size(text: str) -> str | int:
    """Bytes of `12.50 MiB`; any other text as it is."""
    found = re.fullmatch(r"(\d+\.\d\d) ([MG]iB)", text)
    return int(float(found[1]) * UNIT[found[2]]) if found else text


@pytest.mark.parametrize("recording", list(recordings()), ids=lambda r: f"{r.file}: {r.version}")
def test_it_reads_what_a_person_reads(recording: Recording) -> None:
    assert list(differences(plain(recording.read()), recording.wanted)) == []


def table() -> str:
    """Parser by version: what is recorded, from where, and what is not had."""
    lines = [
        "# Recorded answers of other programs, by version\n",
        "Made by `python -m tests.runbooks.test_recorded_answers`, which also reads every text. A text is as it was found, without the",
        "items (fields, rows) that nothing here reads, and with other line breaks in JSON. `wanted` is what a person reads in it.\n",
        "| Read by | What | Version | Known by | From |",
        "|---|---|---|---|---|",
    ]
    for r in recordings():
        head = head_of(r.file)
        parser = head["parser"].rpartition(".")[2]
        lines.append(f"| `{parser}` | {head['reads']} | {r.version} | {r.known_by} | {r.source} |")
    lines += ["\nIn the tests' own files:\n", "| What | Versions |", "|---|---|"]
    lines += [f"| {what} | {'; '.join(texts)} |" for what, texts in HERE.items()]
    lines += ["\nRecorded by this project from the real program:\n", "| What | Where it is read |", "|---|---|"]
    lines += [f"| {what} | {where} |" for what, where in RECORDED.items()]
    lines += ["\nNot had:\n", "| What | Why |", "|---|---|"]
    lines += [f"| {head_of(f)['reads']}: {what} | {why} |" for f in files() for what, why in head_of(f)["missing"].items()]
    lines += [f"| {what} | {why} |" for what, why in NOT_HAD.items()]
    return "\n".join(lines) + "\n"


def test_the_table_lists_them_all() -> None:
    assert TABLE.read_text(encoding="utf-8") == table(), "run `python -m tests.runbooks.test_recorded_answers`"


if __name__ == "__main__":
    TABLE.write_text(table(), encoding="utf-8")
