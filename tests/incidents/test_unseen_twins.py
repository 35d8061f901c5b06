"""Twins of the incidents of unseen.yaml for which a judge was mended: the fault taken out, or the tempting wrong answer made true."""

import copy
import gzip
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from runbooks.core.knowledge import load_runbook
from runbooks.core.reading import Known
from runbooks.core.verdict import Certainty, Diagnosis, State
from runbooks.data.parsers.data_jsonl import gzip_cut
from runbooks.memory.diagnose import diagnose
from runbooks.memory.evidence import Evidence as MemoryEvidence
from runbooks.memory.limits import Limits
from runbooks.memory.parsers.kernel_ooms import HostOom
from tests.incidents.unseen import ALL, SAVES, judge, read
from tests.runbooks.more_sick import AT

Given = dict[str, Any]
SIZES = (
    "RuntimeError: Error(s) in loading state_dict for Net:\n"
    "\tsize mismatch for head.weight: copying a param with shape torch.Size([10, 3]) from checkpoint, the shape in current model is "
    "torch.Size([12, 3]).\n"
)


def slugs(found: Diagnosis) -> set[str]:
    return {c.slug for c in found.causes if c.certainty is not Certainty.RULED_OUT}


def of(ident: str, change: Callable[[Given], None]) -> Given:
    """The incident with its evidence changed."""
    case = copy.deepcopy(next(x for x in ALL if x["id"] == ident))
    change(case["given"])
    return case


def no_nodes(given: Given) -> None:
    given["host"]["value"]["nvidia_devices"] = []


def a_gpu(given: Given) -> None:
    given["nodes"]["value"][0]["resources"]["GPU"] = 1


def in_a_group(given: Given) -> None:
    given["actors"]["value"][0]["resources"] = {"GPU_group_0_5f1c": 1}


def name_found(given: Given) -> None:
    given["nodes"]["n2"]["reach"] = [{"address": "cifardist-0-0.cifardist:29500", "resolves": ["10.244.0.7"]}]


def enough_agents(given: Given) -> None:
    agent = given["nodes"]["n1"]["agents"][0]
    given["nodes"]["n1"]["agents"] = [agent | {"args": agent["args"].replace("--nnodes=2", "--nnodes=1")}]


def one_node_each(given: Given) -> None:
    given["batch_text"] = given["batch_text"].replace("srun python", "srun --nodes=1 --nodelist=cn101 python")


def own_rank(given: Given) -> None:
    given["batch_text"] = given["batch_text"].replace("--node_rank=0", "--node_rank=$SLURM_NODEID")


def no_word_of_the_driver(given: Given) -> None:
    given["log"] = [given["log"][0], 'error starting container: exec: "/start.sh": exec format error']


def still_pulls(given: Given) -> None:
    given["log"] = given["log"][:2]


def asks_for_more_than_both(given: Given) -> None:
    given["log"] = given["log"].replace("7.31 GiB", "11.31 GiB")


def nothing_unused(given: Given) -> None:
    given["log"] = given["log"].replace("12.06 GiB already allocated", "15.80 GiB already allocated")


def counted_as_a_gpu(given: Given) -> None:
    given["nodes"]["value"][1]["resources"] = {"CPU": 17, "GPU": 1}
    given["usage"]["value"]["usage"] = {"CPU": [0, 34], "GPU": [1, 2]}


def the_model_itself(given: Given) -> None:
    given["log"] = SIZES


def both_refused(given: Given) -> None:
    given["log"] += SIZES


TWINS: tuple[tuple[str, str, Callable[[Given], None], set[str], set[str]], ...] = (
    ("PU13", "the machine has no device nodes", no_nodes, {"devices-lost"}, {"start-refused"}),
    ("PU61", "the node has a GPU", a_gpu, set(), {"no-such-resource"}),
    ("PU61", "the actor waits for its placement group", in_a_group, set(), {"no-such-resource"}),
    ("PU73", "the name resolves", name_found, set(), {"endpoint-unresolvable"}),
    ("PU73", "as many agents run as are wanted", enough_agents, set(), {"endpoint-unresolvable"}),
    ("PU76", "each step names its node", one_node_each, set(), {"launch-command"}),
    ("PU76", "the rank is the node's own", own_rank, set(), {"launch-command"}),
    ("PU81", "the start command itself fails", no_word_of_the_driver, {"start-command-fails"}, {"driver-too-old"}),
    ("PV51", "more than what is free and what is cached", asks_for_more_than_both, {"model-too-large"}, {"fragmented"}),
    ("PV55", "nearly all that is reserved is in use", nothing_unused, {"model-too-large"}, {"fragmented"}),
    ("PW61", "both nodes count a GPU, and another job holds one", counted_as_a_gpu, {"resources-busy"}, {"no-such-resource"}),
    ("PW23", "the weights of the model instead", the_model_itself, {"loader-model-changed"}, {"loader-optimizer-changed"}),
    ("PW23", "the weights of the model too", both_refused, {"loader-model-changed", "loader-optimizer-changed"}, set()),
    ("PU84", "it pulls, and no error follows", still_pulls, {"pull-over-budget"}, {"no-container"}),
)


def marked(x: tuple[str, str, Callable[[Given], None], set[str], set[str]]) -> Any:
    return pytest.param(x, marks=pytest.mark.incident(x[0], came="right", fed="evidence", known=True, twin=x[1]), id=f"{x[0]}-{x[1]}")


@pytest.mark.parametrize("twin", [marked(x) for x in TWINS])
def test_a_twin(twin: tuple[str, str, Callable[[Given], None], set[str], set[str]], tmp_path: Path) -> None:
    ident, _, change, has, lacks = twin
    found = slugs(judge(of(ident, change), tmp_path))
    assert has <= found, found
    assert not lacks & found, found


@pytest.mark.parametrize("ident", ["PW22", "PW23"])
def test_what_a_log_is_said_to_say_stands_in_it(ident: str, tmp_path: Path) -> None:
    """An optimizer's groups that do not fit are not told as missing keys of the model, nor sizes that differ."""
    for n, change in enumerate((lambda _: None, the_model_itself)):
        case, place = of(ident, change), tmp_path / str(n)
        place.mkdir()
        said = [line for c in judge(case, place).causes for line in c.evidence if line.startswith("the log says")]
        assert said
        assert all(line.removeprefix("the log says: ") in map(str.strip, case["given"]["log"].splitlines()) for line in said), said


def another_process(given: Given) -> None:
    given["log"] = given["log"].replace("629", "6291")


def named_by_the_agent(given: Given) -> None:
    given["log"] = "step 7\nERROR failed (exitcode: -9) rank: 0 (pid: 629) of binary: python3\nSignal 9 (SIGKILL) received by PID 629\n"


@pytest.mark.incident("PW51", came="right", fed="evidence", known=True, twin="the log names another process")
def test_a_kill_of_another_process_is_listed_and_no_answer(tmp_path: Path) -> None:
    found = judge(of("PW51", another_process), tmp_path)
    assert (found.state, slugs(found)) == (State.CANNOT_TELL, set())
    (other,) = [f.issue for f in found.findings if f.category == "memory/another-time"]
    assert "pid 629 (onmt_train)" in other
    assert "20 minutes before" in other


@pytest.mark.incident("PW51", came="right", fed="evidence", known=True, twin="the launcher's own words name the process")
def test_a_kill_of_the_process_that_the_launcher_names(tmp_path: Path) -> None:
    (cause,) = judge(of("PW51", named_by_the_agent), tmp_path).causes
    assert (cause.slug, cause.certainty) == ("cgroup-oom", Certainty.LIKELY), "the number may be of a container, or given out again"
    assert any("its log names that process, and ends 20 minutes after it" in x for x in cause.evidence)


@pytest.mark.incident("PW51", came="right", fed="evidence", known=True, twin="the kill is of the day before, or came after the log's end")
@pytest.mark.parametrize("at", [AT - timedelta(hours=25), AT + timedelta(minutes=30)])
def test_the_number_alone_is_not_the_process(at: datetime, tmp_path: Path) -> None:
    case = of("PW51", lambda _: None)
    seen = read(case, tmp_path)
    assert isinstance(seen, MemoryEvidence)
    assert isinstance(seen.killed, Known)
    moved = Known[tuple[HostOom, ...]](value=tuple(k.model_copy(update={"at": at}) for k in seen.killed.value))
    limits = Limits.model_validate(load_runbook("memory-pressure").limit_values())
    found = diagnose(seen.model_copy(update={"killed": moved}), limits)
    assert (found.state, slugs(found)) == (State.CANNOT_TELL, set())


@pytest.mark.incident("PV11", came="right", fed="evidence", known=True, twin="the reboot ended it, and no device node is missing")
def test_a_reboot_alone(tmp_path: Path) -> None:
    def reboot(given: Given) -> None:
        given["container"]["value"] |= {"error": "", "exit_code": 137}
        given["host"]["value"]["missing_devices"] = []

    found = judge(of("PV11", reboot), tmp_path)
    assert [s.kind for p in found.plans for s in p.steps] == ["start-container", "recreate-container"]
    assert "devices-lost" not in slugs(found)


@pytest.mark.incident("PU23", came="right", fed="readers", known=True, twin="one rank of the 32 has no file")
def test_a_rank_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def without_rank_7(shelf: Path) -> Given:
        config = zero(shelf)
        (shelf / "global_step500" / "zero_pp_rank_7_mp_rank_00_optim_states.pt").unlink()
        return config

    zero = SAVES["zero-of-32-ranks"]
    monkeypatch.setitem(SAVES, "zero-of-32-ranks", without_rank_7)
    found = judge(of("PU23", lambda _: None), tmp_path)
    assert "killed-mid-save" in slugs(found)
    assert "loader-world-size" not in slugs(found)


@pytest.mark.incident("PU23", came="right", fed="readers", known=True, twin="the job has 32 ranks as well")
def test_as_many_ranks_as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    zero = SAVES["zero-of-32-ranks"]
    monkeypatch.setitem(SAVES, "zero-of-32-ranks", lambda shelf: zero(shelf) | {"world_size": 32})
    assert slugs(judge(of("PU23", lambda given: given.update(log="step 500\n")), tmp_path)) == set()


@pytest.mark.incident("PU32", came="right", fed="readers", known=True, twin="the compressed file is whole")
def test_a_compressed_file_that_is_whole(tmp_path: Path) -> None:
    found = judge(of("PU32", lambda given: given.update(gzip_cut=1.0)), tmp_path)
    assert (found.state, slugs(found)) == (State.HEALTHY, set()), "its name says that it is packed, and a loader unpacks it by that"


@pytest.mark.parametrize("data", [b"", b"a", b"\0" * 30_000_000, bytes(range(256)) * 4000], ids=["none", "one", "zeros", "mixed"])
def test_the_end_of_a_gzip_file(data: bytes) -> None:
    """Whole, in two members or padded with zeros it is no cut one; without its last byte it is."""
    packed = gzip.compress(data)
    for whole in (packed, packed + packed, packed + b"\0" * 512):
        assert gzip_cut(whole[i : i + 4096] for i in range(0, len(whole), 4096)) is None
    for cut in (packed[:-1], packed[:12], packed + packed[:-3]):
        found = gzip_cut(cut[i : i + 4096] for i in range(0, len(cut), 4096))
        assert found is not None
        assert found.kind == "cut-last-line"
    assert gzip_cut([packed[:10], b"no deflate data at all"]) is None
