"""Checkpoints, stores and data files of the first 44 incidents, each through its reader, with a twin that must come out otherwise."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from runbooks.core.checkpoints import Tier
from runbooks.core.fleet import Fleet, Node
from runbooks.core.knowledge import load_runbook
from runbooks.core.verdict import Certainty, Diagnosis, State
from runbooks.data import diagnose as data
from tasks.context import Context
from tasks.data.read import gather_data_check
from tasks.transport.local import LocalHost
from tests.incidents.test_formats import kinds, lets_it_stay, of, slugs
from tests.support.ckpt_files import need, save
from tests.support.ckpt_fleet import Shelf, context, folder, look
from tests.support.s3 import ADMIN, READER, Proxy, S3Server
from tests.support.smallfs import fill, tmpfs

FULL = (
    "tee: train_log1129.txt: No space left on device\nRuntimeError: [enforce fail at inline_container.cc:471] . "
    "PytorchStreamWriter failed writing file data/807: file write failed\n"
)
CENTRAL = "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory\n"
REFUSED = (
    "UnpicklingError: Weights only load failed. This file can still be loaded\nWeightsUnpickler error: Unsupported global: "
    "GLOBAL numpy.core.multiarray._reconstruct was not an allowed global by default.\n"
)


def as_user(monkeypatch: pytest.MonkeyPatch, who: tuple[str, str]) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", who[0])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", who[1])


def with_log(tmp_path: Path, text: str) -> dict[str, Any]:
    (tmp_path / "log").write_text(text)
    return {"options": {"log": str(tmp_path / "log")}}


@pytest.mark.incident("CK01", came="right", fed="readers", known=True)
def test_the_disk_filled_up(shelf: Shelf, tmp_path: Path) -> None:
    with tmpfs(tmp_path / "nvme", "2m") as nvme:
        old, new = shelf.put(nvme, 100, 200)
        os.truncate(new, new.stat().st_size // 2)
        fill(nvme)
        got = look(context(folder("nvme", nvme), **with_log(tmp_path, FULL + CENTRAL)))[1]
        assert of(got, "truncated-by-full-disk").certainty is Certainty.CONFIRMED
        assert got.headline.startswith("Resume from step 100")
        assert "prune-checkpoints" not in kinds(got), "the good older one stays"
        assert any("before there is room" in line for line in got.must_not)
        assert old.exists()


@pytest.mark.incident("CK01", came="right", fed="readers", known=True, twin="room enough, and no word of a full disk")
def test_cut_off_with_room_enough(shelf: Shelf, tmp_path: Path) -> None:
    _, new = shelf.put(tmp_path / "c", 100, 200)
    os.truncate(new, new.stat().st_size // 2)
    got = look(context(folder("nvme", tmp_path / "c"), **with_log(tmp_path, CENTRAL)))[1]
    assert of(got, "truncated").certainty is Certainty.CONFIRMED
    assert "truncated-by-full-disk" not in slugs(got)


def shards(shelf: Shelf, where: Path, broken: bool) -> Diagnosis:
    _, new = shelf.put(where, 100, 200, form="sharded")
    if broken:
        os.truncate(new / "rank_0.pt", 0)
        os.truncate(new / "rank_2.pt", (new / "rank_2.pt").stat().st_size - 1800)
        (new / "rank_3.pt").rename(new / "rank_3.pt.tmp")
    return look(context(folder("nvme", where), naming="step_{step}", ranks="rank_{rank}.pt", world_size=4))[1]


@pytest.mark.incident("CK03", came="right", fed="readers", known=True)
def test_shards_that_are_empty_short_and_temporary(shelf: Shelf, tmp_path: Path) -> None:
    got = shards(shelf, tmp_path, broken=True)
    cause = of(got, "killed-mid-save")
    assert cause.certainty is Certainty.CONFIRMED
    assert any("rank_2.pt" in line for line in cause.evidence), "the short one is told as well"
    assert got.headline.startswith("Resume from step 100")
    assert any("shards of" in line for line in got.must_not)


@pytest.mark.incident("CK03", came="right", fed="readers", known=True, twin="every shard is whole")
def test_shards_that_are_whole(shelf: Shelf, tmp_path: Path) -> None:
    got = shards(shelf, tmp_path, broken=False)
    assert got.headline.startswith("Resume from step 200")
    assert got.state is State.HEALTHY


def parts(tmp_path: Path, leave_out: str) -> Diagnosis:
    torch = need("torch")
    for step in (100, 200):
        for part in ("actor/weights.pt", "critic/weights.pt", "data/data.pt"):
            if step == 200 and part.startswith(leave_out or "-"):
                continue
            path = tmp_path / f"global_step_{step}" / part
            path.parent.mkdir(parents=True, exist_ok=True)
            torch.save({"x": torch.ones(50), "step": step}, path)
    wanted = ("actor/*.pt", "critic/*.pt", "data/data.pt")
    return look(context(folder("nvme", tmp_path), naming="global_step_{step}", parts=wanted))[1]


@pytest.mark.incident("CK05", came="right", fed="readers", known=True)
@pytest.mark.parametrize("part", ["data/", "critic/"])
def test_the_part_that_is_written_last_is_missing(tmp_path: Path, part: str) -> None:
    got = parts(tmp_path, part)
    assert of(got, "killed-mid-save").certainty is Certainty.CONFIRMED
    assert got.headline.startswith("Resume from step 100")
    assert any("because the weights loaded" in line for line in got.must_not)


@pytest.mark.incident("CK05", came="right", fed="readers", known=True, twin="all parts are there")
def test_all_parts_are_there(tmp_path: Path) -> None:
    got = parts(tmp_path, "")
    assert got.headline.startswith("Resume from step 200")
    assert not slugs(got)


@pytest.mark.incident("CK06", came="right", fed="readers", known=True)
def test_a_numpy_object_that_the_loader_refuses(shelf: Shelf, tmp_path: Path) -> None:
    torch, numpy = need("torch"), need("numpy")
    shelf.put(tmp_path / "c", 100)
    torch.save({"w": torch.ones(9), "best": numpy.ones(3), "step": 200}, tmp_path / "c" / "checkpoint_step_200.pt")
    got = look(context(folder("nvme", tmp_path / "c"), **with_log(tmp_path, REFUSED)))[1]
    assert of(got, "loader-weights-only").certainty is Certainty.CONFIRMED
    lets_it_stay(got, 200)
    assert any("older checkpoint" in line for line in got.must_not)


@pytest.mark.incident("CK06", came="right", fed="readers", known=True, twin="the newest file is also cut off")
def test_a_numpy_object_in_a_file_that_is_cut_off(shelf: Shelf, tmp_path: Path) -> None:
    torch, numpy = need("torch"), need("numpy")
    shelf.put(tmp_path / "c", 100)
    path = tmp_path / "c" / "checkpoint_step_200.pt"
    torch.save({"w": torch.ones(900), "best": numpy.ones(3), "step": 200}, path)
    os.truncate(path, path.stat().st_size - 300)
    got = look(context(folder("nvme", tmp_path / "c"), **with_log(tmp_path, REFUSED)))[1]
    assert of(got, "truncated").certainty is Certainty.CONFIRMED
    assert got.headline.startswith("Resume from step 100")


def tier(s3: S3Server, prefix: str, **more: Any) -> Tier:
    return Tier(**{"name": "s3", "kind": "s3", "bucket": "ckpt", "prefix": prefix, "endpoint": s3.url} | more)


@pytest.mark.incident("CK09", came="right", fed="readers", known=True)
def test_403_for_what_is_not_there(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    as_user(monkeypatch, ADMIN)
    s3.client().put_object(Bucket="ckpt", Key="ck09/latest", Body=b"checkpoint_step_1.pt")
    as_user(monkeypatch, READER)
    got = look(context(tier(s3, "ck09")))[1]
    assert "s3-403-missing-key" in slugs(got)
    assert not slugs(got) & {"s3-expired", "s3-wrong-credentials"}
    assert any("s3:*" in line for line in got.must_not)


@pytest.mark.incident("CK09", came="right", fed="readers", known=True, twin="the credentials are wrong")
def test_403_for_wrong_credentials(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    as_user(monkeypatch, (ADMIN[0], "wrong"))
    got = look(context(tier(s3, "ck09")))[1]
    assert "s3-wrong-credentials" in slugs(got)
    assert "s3-403-missing-key" not in slugs(got)


@pytest.mark.incident("CK11", came="right", fed="readers", known=True)
def test_slow_down(s3: S3Server, shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    as_user(monkeypatch, ADMIN)
    shelf.put(tmp_path / "c", 100)
    proxy = Proxy(s3.port)
    try:
        proxy.answers = {"GET": (503, "SlowDown"), "HEAD": (503, "SlowDown")}
        got = look(context(folder("nvme", tmp_path / "c"), tier(s3, "ck11", endpoint=proxy.url)))[1]
    finally:
        proxy.stop()
    assert "s3-throttled" in slugs(got)
    assert not slugs(got) & {"s3-no-credentials", "s3-unreachable", "damaged-structure"}
    assert "prune-checkpoints" not in kinds(got)


@pytest.mark.incident("CK11", came="right", fed="readers", known=True, twin="nobody answers at all")
def test_refused_connections_alone(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    as_user(monkeypatch, ADMIN)
    proxy = Proxy(s3.port)
    proxy.stop()
    got = look(context(tier(s3, "ck11", endpoint=proxy.url)))[1]
    assert "s3-throttled" not in slugs(got)
    assert "s3-unreachable" in slugs(got)


def cold(s3: S3Server, shelf: Shelf, tmp_path: Path, storage: str) -> Diagnosis:
    for path in shelf.put(tmp_path / "made", 300):
        s3.client().put_object(Bucket="ckpt", Key=f"ck12{storage}/{path.name}", Body=path.read_bytes())
    proxy = Proxy(s3.port)
    proxy.storage = storage
    try:
        return look(context(tier(s3, f"ck12{storage}", endpoint=proxy.url)))[1]
    finally:
        proxy.stop()


@pytest.mark.incident("CK12", came="right", fed="readers", known=True)
def test_an_object_in_an_archive(s3: S3Server, shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    as_user(monkeypatch, ADMIN)
    got = cold(s3, shelf, tmp_path, "GLACIER")
    assert slugs(got) == {"archived"}
    assert any("IAM" in line for line in got.must_not)


@pytest.mark.incident("CK12", came="right", fed="readers", known=True, twin="an ordinary storage class")
def test_an_object_at_hand(s3: S3Server, shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    as_user(monkeypatch, ADMIN)
    got = cold(s3, shelf, tmp_path, "STANDARD")
    assert got.headline.startswith("Resume from step 300")
    assert "archived" not in slugs(got)


# --- data files ---

ROWS = [json.dumps({"id": n, "claim": f'Name {n} was nominated "twice"'}) for n in range(400)]


def read(path: Path, log: str = "") -> Diagnosis:
    options: dict[str, Any] = {"data": [str(path)]}
    if log:
        path.with_suffix(".log").write_text(log)
        options["log"] = str(path.with_suffix(".log"))
    ctx = Context(fleet=Fleet(nodes=(Node(name="a", local=True),)), target="a", open_host=lambda n: LocalHost(n.name), options=options)
    return data.diagnose(gather_data_check(ctx), data.Limits(**load_runbook("data-check").limit_values()))


CUT = 'File "prepare_input.py", line 19\njson.decoder.JSONDecodeError: Unterminated string starting at: line 1 column 10 (char 9)\n'
EXTRA = "ValueError: Extra data: line 2 column 1 - line 991 column 1 (char 700 - 901156)\n"


@pytest.mark.incident("DJ01", came="right", fed="readers", known=True)
def test_a_download_that_ends_in_the_middle(tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    path.write_text("\n".join(ROWS)[:-9])
    got = read(path, CUT)
    assert of(got, "cut-off").certainty is Certainty.CONFIRMED
    assert any("drop the last line" in line for line in got.must_not)


@pytest.mark.incident("DJ01", came="right", fed="readers", known=True, twin="the bad line is followed by others: it was written so")
def test_a_line_that_ends_in_the_middle_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    path.write_text("\n".join([*ROWS[:200], ROWS[200][:-9], *ROWS[201:]]) + "\n")
    got = read(path, CUT)
    assert of(got, "bad-record").certainty is Certainty.CONFIRMED
    assert "cut-off" not in slugs(got)


@pytest.mark.incident("DJ04", came="right", fed="readers", known=True)
def test_lines_that_were_read_as_one_value(tmp_path: Path) -> None:
    path = tmp_path / "train.json"
    path.write_text("\n".join(ROWS) + "\n")
    got = read(path, EXTRA)
    assert of(got, "jsonl-named-json").certainty is Certainty.CONFIRMED
    assert slugs(got) == {"jsonl-named-json"}
    assert any("repair" in line for line in got.must_not)


@pytest.mark.incident("DJ04", came="right", fed="readers", known=True, twin="a line of it is really broken")
def test_lines_of_which_one_is_broken(tmp_path: Path) -> None:
    path = tmp_path / "train.json"
    path.write_text("\n".join([*ROWS[:9], "{oops}", *ROWS[9:]]) + "\n")
    got = read(path, EXTRA)
    assert of(got, "bad-record").certainty is Certainty.CONFIRMED
    assert "jsonl-named-json" not in slugs(got)


def test_a_whole_save_is_healthy_beside_them(shelf: Shelf, tmp_path: Path) -> None:
    """Every format that is checked to the last byte comes out well: the tests above do not pass by calling all things bad."""
    save("dcp", tmp_path / "step_100")
    assert look(context(folder("nvme", tmp_path), naming="step_{step}"))[1].state is State.HEALTHY
