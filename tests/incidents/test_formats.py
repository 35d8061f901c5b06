"""A reader's limit is no damage: saves in parts on several hosts, a missing last rename, a loader's own limit, settings lost
while loading."""

import json
import os
import shutil
import struct
from pathlib import Path
from typing import Any

import pytest

from runbooks.core.verdict import Cause, Certainty, Diagnosis, State
from tests.support.ckpt_files import need, save
from tests.support.ckpt_fleet import Shelf, context, folder, look
from tests.support.ckpt_ranks import deal, hosts_of, save_by_ranks

LOGS = {  # the incidents' own lines
    "T2-14": 'File "torch/optim/adamw.py", in step\n    beta1, beta2 = group["betas"]\nKeyError: \'betas\'\n',
    "T2-13": "safetensors_rust.SafetensorError: Error while deserializing header: header too large\n",
    "T2-12": "S3Exception: Service error: The object was not found\nthrown from S3FileSystem.rename while .metadata.tmp is copied\n",
}


def kinds(got: Diagnosis) -> set[str]:
    return {s.kind for p in got.plans for s in p.steps}


def of(got: Diagnosis, slug: str) -> Cause:
    found = [c for c in got.causes if c.slug == slug]
    assert found, f"no cause {slug}: {[(c.slug, c.certainty) for c in got.causes]}; {got.headline}"
    return found[0]


def slugs(got: Diagnosis) -> set[str]:
    return {c.slug for c in got.causes}


def lets_it_stay(got: Diagnosis, step: int) -> None:
    """Nothing of the report sets a step aside, or sends anybody to an older one."""
    assert not kinds(got) & {"quarantine-checkpoint", "prune-checkpoints", "repoint-latest", "copy-checkpoint"}, kinds(got)
    assert not got.headline.startswith("Resume from") or f"step {step} " in got.headline, got.headline
    assert not any(line.startswith("Resume with") and f"{step}" not in line for line in got.do_now), got.do_now


# --- one save on the disks of two hosts (CK04) ---


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A distributed checkpoint of four ranks, written by four processes."""
    return save_by_ranks(tmp_path_factory.mktemp("ranks") / "step_200", 200)


@pytest.fixture
def disks(whole: Path, shelf: Shelf, tmp_path: Path) -> dict[str, Path]:
    """Two hosts, each with the shards of its own two ranks and an older step that is whole."""
    made = {name: tmp_path / name for name in ("host-0", "host-1")}
    deal(whole, list(made.values()))
    for disk in made.values():
        shelf.put(disk, 100, form="dcp")
    return made


def judged(disks: dict[str, Path], tmp_path: Path, target: str = "host-0", **more: Any) -> Diagnosis:
    return look(hosts_of(tmp_path / "job", disks, target, naming="step_{step}", **more))[1]


@pytest.mark.incident("CK04", came="right", fed="readers", known=True)
@pytest.mark.parametrize("target", ["host-0", "host-1"])
def test_a_save_on_two_hosts_is_whole_together(disks: dict[str, Path], tmp_path: Path, target: str) -> None:
    got = judged(disks, tmp_path, target)
    cause = of(got, "parts-on-hosts")
    assert cause.certainty is Certainty.CONFIRMED
    assert "2 files on host-0" in cause.evidence[0]
    assert "2 files on host-1" in cause.evidence[0]
    assert got.headline.startswith("Step 200 on nvme is whole, but its parts lie on several hosts. Join them")
    assert "killed-mid-save" not in slugs(got)
    assert any("shared storage" in line for line in got.do_now)
    lets_it_stay(got, 200)


@pytest.mark.incident("CK04", came="right", fed="readers", known=True, twin="a shard is on no host: the save is incomplete")
def test_a_shard_that_is_on_no_host(disks: dict[str, Path], tmp_path: Path) -> None:
    (lost,) = (disks["host-1"] / "step_200").glob("__3_*.distcp")
    lost.unlink()
    got = judged(disks, tmp_path)
    cause = of(got, "killed-mid-save")
    assert cause.certainty is Certainty.CONFIRMED
    assert any("over all hosts" in line and lost.name in line for line in cause.evidence), cause.evidence
    assert got.headline.startswith("Resume from step 100")
    assert "quarantine-checkpoint" in kinds(got)


@pytest.mark.incident("CK04", came="right", fed="readers", known=True, twin="a shard of the other host is cut off")
def test_a_part_that_is_cut_off_elsewhere(disks: dict[str, Path], tmp_path: Path) -> None:
    (cut,) = (disks["host-1"] / "step_200").glob("__3_*.distcp")
    os.truncate(cut, cut.stat().st_size - 100)
    got = judged(disks, tmp_path)
    assert of(got, "killed-mid-save").certainty is Certainty.CONFIRMED
    assert got.headline.startswith("Resume from step 100")


@pytest.mark.incident("CK04", came="open", fed="readers", known=True, twin="the other host does not answer")
@pytest.mark.parametrize("target", ["host-0", "host-1"])
def test_the_other_host_is_not_read(disks: dict[str, Path], tmp_path: Path, target: str) -> None:
    other = "host-1" if target == "host-0" else "host-0"
    got = judged(disks, tmp_path, target, unread=(other,))
    assert got.state is State.CANNOT_TELL
    cause = of(got, "part-elsewhere")
    assert cause.certainty is Certainty.POSSIBLE
    assert other in cause.decides[0]
    assert got.headline.startswith("Cannot tell whether step 200 on nvme is whole")
    assert "killed-mid-save" not in slugs(got)
    lets_it_stay(got, 200)


@pytest.mark.incident("CK04", came="open", fed="readers", known=True, twin="the fleet file names one of the hosts only")
def test_the_fleet_file_names_one_host(disks: dict[str, Path], tmp_path: Path) -> None:
    for name in disks:
        got = judged({name: disks[name]}, tmp_path, name)
        cause = of(got, "part-elsewhere")
        assert cause.certainty is Certainty.LIKELY
        assert "killed-mid-save" not in slugs(got)
        lets_it_stay(got, 200)


@pytest.mark.incident("CK04", came="right", fed="readers", known=True, twin="one shared file system: nothing lies elsewhere")
def test_on_a_shared_file_system_it_is_incomplete(disks: dict[str, Path], tmp_path: Path) -> None:
    got = judged({"host-0": disks["host-0"]}, tmp_path, shared=True)
    assert of(got, "killed-mid-save").certainty is Certainty.CONFIRMED
    assert got.headline.startswith("Resume from step 100")


def test_one_file_per_rank_on_two_hosts(shelf: Shelf, tmp_path: Path) -> None:
    """The same without a commit marker: the ranks' own files, as the fleet file names them."""
    made = {name: tmp_path / name for name in ("a", "b")}
    for n, disk in enumerate(made.values()):
        shelf.put(disk, 100, 200, form="sharded")
        for rank in (0, 1) if n else (2, 3):
            (disk / "step_200" / f"rank_{rank}.pt").unlink()
    ranks = {"ranks": "rank_{rank}.pt", "world_size": 4}
    got = judged(made, tmp_path, "a", **ranks)
    assert of(got, "parts-on-hosts").certainty is Certainty.CONFIRMED
    lets_it_stay(got, 200)
    (made["b"] / "step_200" / "rank_3.pt").unlink()
    got = judged(made, tmp_path, "a", **ranks)
    assert of(got, "killed-mid-save").certainty is Certainty.CONFIRMED
    assert got.headline.startswith("Resume from step 100")


def test_parts_of_two_times_may_be_two_saves(disks: dict[str, Path], tmp_path: Path) -> None:
    for path in (disks["host-1"] / "step_200").iterdir():
        os.utime(path, (path.stat().st_mtime - 90_000,) * 2)
    got = judged(disks, tmp_path)
    assert of(got, "parts-on-hosts").certainty is Certainty.LIKELY
    lets_it_stay(got, 200)


def test_zero_of_deepspeed_on_two_hosts(tmp_path: Path) -> None:
    """What the model's file says of the ranks decides how many files of the optimizer there must be."""
    torch = need("torch")
    made = {name: tmp_path / name for name in ("a", "b")}
    for n, disk in enumerate(made.values()):
        inside = disk / "global_step200"
        inside.mkdir(parents=True)
        if n == 0:
            state = {"module": {"w": torch.ones(64)}, "dp_world_size": 4, "mp_world_size": 1, "global_steps": 200}
            torch.save(state, inside / "mp_rank_00_model_states.pt")
        for rank in (0, 1) if n == 0 else (2, 3):
            state = {"optimizer_state_dict": {"x": torch.ones(64)}, "dp_world_size": 4}
            torch.save(state, inside / f"bf16_zero_pp_rank_{rank}_mp_rank_00_optim_states.pt")
    naming = {"naming": "global_step{step}"}
    got = look(hosts_of(tmp_path / "job", made, "a", **naming))[1]
    assert of(got, "parts-on-hosts").certainty is Certainty.CONFIRMED
    (made["b"] / "global_step200" / "bf16_zero_pp_rank_3_mp_rank_00_optim_states.pt").unlink()
    got = look(hosts_of(tmp_path / "job", made, "a", **naming))[1]
    assert of(got, "killed-mid-save").certainty is Certainty.CONFIRMED


# --- the last rename is missing (T2-12) ---


def unrenamed(where: Path, age_s: float = 3600) -> None:
    (where / ".metadata").rename(where / ".metadata.tmp")
    for path in where.iterdir():
        os.utime(path, (path.stat().st_mtime - age_s,) * 2)


@pytest.mark.incident("T2-12", came="right", fed="readers", known=True)
def test_whole_but_for_the_rename(shelf: Shelf, tmp_path: Path) -> None:
    """The same on a folder: a kill between the last byte and the rename leaves it. On a store: test_formats_s3.py."""
    old, new = shelf.put(tmp_path, 100, 200, form="dcp")
    unrenamed(new)
    got = look(context(folder("nvme", tmp_path), naming="step_{step}"))[1]
    assert of(got, "rename-missing").certainty is Certainty.CONFIRMED
    assert got.headline.startswith("Step 200 on nvme is whole, but its commit marker still has a temporary name")
    assert "killed-mid-save" not in slugs(got)
    assert not any("rename a .tmp" in line for line in got.must_not), "the advice denies itself"
    lets_it_stay(got, 200)
    assert old.exists()


@pytest.mark.incident("T2-12", came="right", fed="readers", known=True, twin="a shard is short: the save was killed")
def test_a_short_shard_below_a_marker_without_its_name(shelf: Shelf, tmp_path: Path) -> None:
    _, new = shelf.put(tmp_path, 100, 200, form="dcp")
    unrenamed(new)
    shard = next(iter(new.glob("*.distcp")))
    os.truncate(shard, shard.stat().st_size // 2)
    got = look(context(folder("nvme", tmp_path), naming="step_{step}"))[1]
    assert of(got, "killed-mid-save").certainty is Certainty.CONFIRMED
    assert got.headline.startswith("Resume from step 100")


@pytest.mark.incident("T2-12", came="right", fed="readers", known=True, twin="the marker itself is cut off")
def test_a_marker_without_its_name_that_is_cut_off(shelf: Shelf, tmp_path: Path) -> None:
    _, new = shelf.put(tmp_path, 100, 200, form="dcp")
    os.truncate(new / ".metadata", (new / ".metadata").stat().st_size // 2)
    unrenamed(new)
    got = look(context(folder("nvme", tmp_path), naming="step_{step}"))[1]
    assert of(got, "killed-mid-save").certainty is Certainty.CONFIRMED


@pytest.mark.incident("T2-12", came="open", fed="readers", known=True, twin="the save may still be going on")
def test_a_save_that_may_still_go_on(shelf: Shelf, tmp_path: Path) -> None:
    _, new = shelf.put(tmp_path, 100, 200, form="dcp")
    unrenamed(new, age_s=0)
    for path in new.iterdir():
        path.touch()
    got = look(context(folder("nvme", tmp_path), naming="step_{step}"))[1]
    assert of(got, "rename-missing").certainty is Certainty.LIKELY
    lets_it_stay(got, 200)


# --- a loader's own limit (T2-13) ---


def long_header(path: Path, tensors: int = 1300, name: int = 80_000) -> None:
    """A whole safetensors file whose header is longer than the library takes."""
    with path.open("wb") as f:
        f.write(bytes(8))
        f.write(b"{")
        for n in range(tensors):
            entry = json.dumps({"dtype": "F32", "shape": [4], "data_offsets": [16 * n, 16 * n + 16]})
            f.write(b'%s"%d.%s":%s' % (b"," if n else b"", n, b"w" * name, entry.encode()))
        f.write(b"}")
        length = f.tell() - 8
        f.write(bytes(range(1, 17)) * tensors)
        f.seek(0)
        f.write(length.to_bytes(8, "little"))
    assert length > 100_000_000


@pytest.mark.incident("T2-13", came="right", fed="readers", known=True)
def test_a_header_longer_than_the_library_takes(tmp_path: Path) -> None:
    need("safetensors")
    from safetensors import SafetensorError, safe_open

    path, log = tmp_path / "c" / "step_200.safetensors", tmp_path / "log"
    path.parent.mkdir()
    long_header(path)
    with pytest.raises(SafetensorError, match=r"(?i)header ?too ?large"):
        safe_open(path, framework="pt")
    log.write_text(LOGS["T2-13"])
    got = look(context(folder("nvme", path.parent), naming="step_{step}.safetensors", options={"log": str(log)}))[1]
    cause = of(got, "loader-limit")
    assert cause.certainty is Certainty.CONFIRMED
    assert got.headline.startswith("Resume from step 200")
    assert not slugs(got) & {"damaged-structure", "truncated", "not-a-checkpoint"}
    assert any("download it again" in line for line in got.must_not)
    lets_it_stay(got, 200)


@pytest.mark.incident("T2-13", came="right", fed="readers", known=True, twin="the same header, and the file ends too early")
def test_a_long_header_of_a_file_that_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "step_200.safetensors"
    long_header(path)
    os.truncate(path, path.stat().st_size - 4)
    got = look(context(folder("nvme", tmp_path), naming="step_{step}.safetensors"))[1]
    assert of(got, "truncated").certainty is Certainty.CONFIRMED
    assert "loader-limit" not in slugs(got)


@pytest.mark.incident("T2-13", came="right", fed="readers", known=True, twin="the first bytes are text: a Git LFS pointer")
def test_first_bytes_that_are_text(tmp_path: Path) -> None:
    path = tmp_path / "step_200.safetensors"
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:" + "a" * 64 + "\nsize 7000000000\n")
    got = look(context(folder("nvme", tmp_path), naming="step_{step}.safetensors"))[1]
    assert of(got, "not-a-checkpoint").certainty is Certainty.CONFIRMED


# --- settings of a parameter group (T2-14) ---


def of_optimizer(where: Path, groups: list[dict[str, Any]], form: str, step: int = 200) -> None:
    torch = need("torch")
    state = {"model": {"w": torch.ones(64)}, "optimizer": {"state": {}, "param_groups": groups}, "step": step}
    if form == "torch-zip":
        torch.save(state, where / f"step_{step}")
        return
    dcp: Any = __import__("torch.distributed.checkpoint", fromlist=["save"])
    dcp.save(state, checkpoint_id=str(where / f"step_{step}"), no_dist=True)


ADAM = {"lr": 0.1, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.01}


def resumed(tmp_path: Path, groups: list[dict[str, Any]], form: str, log: str) -> Diagnosis:
    where = tmp_path / "c"
    where.mkdir()
    of_optimizer(where, groups, form)
    (tmp_path / "log").write_text(log)
    return look(context(folder("nvme", where), naming="step_{step}", options={"log": str(tmp_path / "log")}))[1]


@pytest.mark.incident("T2-14", came="right", fed="readers", known=True)
@pytest.mark.parametrize("form", ["dcp", "torch-zip"])
def test_a_group_that_lost_its_settings(tmp_path: Path, form: str) -> None:
    got = resumed(tmp_path, [{**ADAM, "params": ["w"]}, {"lr": 0.1, "params": []}], form, LOGS["T2-14"])
    cause = of(got, "loader-param-group")
    assert cause.certainty is Certainty.CONFIRMED
    assert got.state is State.UNHEALTHY
    assert got.headline.startswith("Resume from step 200")
    assert any("older checkpoint" in line for line in got.must_not)
    lets_it_stay(got, 200)


@pytest.mark.incident("T2-14", came="right", fed="readers", known=True, twin="every stored group has the setting, none is empty")
@pytest.mark.parametrize("form", ["dcp", "torch-zip"])
def test_a_setting_that_every_stored_group_has(tmp_path: Path, form: str) -> None:
    got = resumed(tmp_path, [{**ADAM, "params": ["w"]}], form, LOGS["T2-14"])
    assert of(got, "loader-param-group").certainty is Certainty.LIKELY


@pytest.mark.incident("T2-14", came="right", fed="readers", known=True, twin="the checkpoint was saved with another optimizer")
@pytest.mark.parametrize("form", ["dcp", "torch-zip"])
def test_a_checkpoint_of_another_optimizer(tmp_path: Path, form: str) -> None:
    got = resumed(tmp_path, [{"lr": 0.1, "momentum": 0.9, "params": ["w"]}], form, LOGS["T2-14"])
    assert of(got, "loader-optimizer-changed").certainty is Certainty.CONFIRMED
    assert "loader-param-group" not in slugs(got)


@pytest.mark.incident("T2-14", came="right", fed="readers", known=True, twin="the job's log has no such error")
def test_no_error_no_cause(tmp_path: Path) -> None:
    got = resumed(tmp_path, [{**ADAM, "params": ["w"]}, {"lr": 0.1, "params": []}], "torch-zip", "step 200 loss 1.0\n")
    assert not slugs(got) & {"loader-param-group", "loader-optimizer-changed"}


NOT_SPECIFIED = "KeyError: \"param 'initial_lr' is not specified in param_groups[0] when resuming an optimizer\""


@pytest.mark.parametrize("error", ["KeyError: 'eps'", NOT_SPECIFIED])
def test_other_settings_in_other_words(tmp_path: Path, error: str) -> None:
    groups = [{"lr": 0.1, "betas": (0.9, 0.99), "params": ["w"]}, {"lr": 0.1, "params": []}]
    log = f'  File "/opt/py/torch/optim/sgd.py", line 9, in step\n    x = group["k"]\n{error}\n'
    got = resumed(tmp_path, groups, "torch-zip", log)
    assert slugs(got) & {"loader-param-group", "loader-optimizer-changed"}


def test_a_key_error_of_the_training_code_is_none_of_it(tmp_path: Path) -> None:
    log = "  File \"train.py\", line 3, in main\n    x = batch['betas']\nKeyError: 'betas'\n"
    got = resumed(tmp_path, [{**ADAM, "params": ["w"]}], "torch-zip", log)
    assert not slugs(got) & {"loader-param-group", "loader-optimizer-changed"}


# --- formats that are named, and their sizes (kind 3) ---


def put(root: Path, files: dict[str, bytes]) -> None:
    for name, data in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)


OTHER = {
    "Orbax": {"step_200/_CHECKPOINT_METADATA": b"{}", "step_200/state/manifest.ocdbt": b"\x0c\xdb" * 40, "step_200/state/d/ab": b"x" * 9},
    "Megatron zarr": {"step_200/metadata.json": b'{"sharded_backend":"zarr"}', "step_200/model.decoder/.zarray": b"{}"},
    "TensorFlow": {"step_200/ckpt-200.index": b"i" * 99, "step_200/ckpt-200.data-00000-of-00001": b"d" * 99},
    "gzip-compressed": {"step_200": b"\x1f\x8b\x08" + bytes(range(1, 200))},
    "NumPy": {"step_200": b"\x93NUMPY\x01\0" + bytes(range(1, 200))},
}


@pytest.mark.parametrize("form", OTHER)
def test_a_known_format_is_named_and_never_called_damaged(shelf: Shelf, tmp_path: Path, form: str) -> None:
    shelf.put(tmp_path, 100, form="dcp")
    put(tmp_path, OTHER[form])
    evidence, got = look(context(folder("nvme", tmp_path), naming="step_{step}"))
    assert evidence.tiers[0].candidates.value[0].format == form  # type: ignore[union-attr]
    assert of(got, "other-format").certainty is Certainty.POSSIBLE
    assert got.state is State.CANNOT_TELL
    assert not slugs(got) & {"not-a-checkpoint", "damaged-structure", "truncated", "killed-mid-save"}
    lets_it_stay(got, 200)


def test_a_format_that_nobody_knows_is_said_to_be_unknown(shelf: Shelf, tmp_path: Path) -> None:
    shelf.put(tmp_path, 100)
    (tmp_path / "checkpoint_step_200.pt").write_bytes(bytes((i * 7919 + 13) % 251 for i in range(4096)))
    got = look(context(folder("nvme", tmp_path)))[1]
    assert of(got, "other-format").certainty is Certainty.POSSIBLE
    lets_it_stay(got, 200)
    (tmp_path / "checkpoint_step_200.pt").write_text("<!DOCTYPE html><html><title>403</title></html>" * 9)
    got = look(context(folder("nvme", tmp_path)))[1]
    assert of(got, "not-a-checkpoint").certainty is Certainty.CONFIRMED
    assert got.headline.startswith("Resume from step 100")


def test_a_part_of_another_format_that_is_missing(tmp_path: Path) -> None:
    put(tmp_path, {"step_200/ckpt-200.index": b"i" * 99, "step_200/ckpt-200.data-00000-of-00002": b"d" * 99})
    got = look(context(folder("share", tmp_path, shared=True), naming="step_{step}"))[1]
    assert of(got, "killed-mid-save").certainty is Certainty.CONFIRMED


@pytest.mark.parametrize("wrapper", ["module.", "_orig_mod."])
def test_the_majority_is_taken_over_the_model_alone(tmp_path: Path, wrapper: str) -> None:
    """Adam keeps two tensors a weight under the optimizer's own names: they say nothing of a wrapper's prefix."""
    torch = need("torch")
    model = {f"{wrapper}layer{i}.weight": torch.ones(8) for i in range(3)}
    moments = {i: {"exp_avg": torch.ones(8), "exp_avg_sq": torch.ones(8), "step": torch.ones(1)} for i in range(3)}
    torch.save({"model": model, "optimizer": {"state": moments, "param_groups": []}, "step": 9}, tmp_path / "checkpoint_step_9.pt")
    evidence, _ = look(context(folder("nvme", tmp_path)))
    assert evidence.tiers[0].candidates.value[0].prefix == wrapper  # type: ignore[union-attr]


# --- gaps in saved steps ---


@pytest.mark.parametrize(
    ("steps", "log", "certainty"),
    [
        ((100, 200, 300, 400, 600), "step 610", Certainty.POSSIBLE),
        ((100, 200, 300, 400, 500), "step 510", None),
        ((100, 200, 300, 400, 500), "step 990", Certainty.LIKELY),
        ((100, 250, 700), "step 990", None),
    ],
)
def test_steps_that_were_due_and_are_not_there(
    shelf: Shelf, tmp_path: Path, steps: tuple[int, ...], log: str, certainty: Certainty | None
) -> None:
    shelf.put(tmp_path / "c", *steps)
    (tmp_path / "log").write_text(log + " loss 1.0\n")
    got = look(context(folder("nvme", tmp_path / "c"), options={"log": str(tmp_path / "log")}))[1]
    assert [c.certainty for c in got.causes if c.slug == "save-gap"] == ([certainty] if certainty else [])


# --- sizes of other formats are tried against the file ---


def gguf(tensors: int = 2) -> bytes:
    def text(said: bytes) -> bytes:
        return len(said).to_bytes(8, "little") + said

    head = b"GGUF" + struct.pack("<IQQ", 3, tensors, 2)
    head += text(b"general.alignment") + struct.pack("<II", 4, 32)
    head += text(b"tokens") + struct.pack("<IIQ", 9, 8, 2) + text(b"a") + text(b"bc")
    for n in range(tensors):
        head += text(b"w%d" % n) + struct.pack("<IQIQ", 1, 64, 0, 256 * n)
    return head + bytes(-len(head) % 32) + bytes(range(1, 129)) * 2 * tensors


def msgpack() -> bytes:
    array = b"\x93\x91\xcd\x04\x00\xa7float32\xc5\x04\x00" + bytes(range(256)) * 4
    return b"\x82\xa6params\x81\xa1w\xc8" + len(array).to_bytes(2, "big") + b"\x01" + array + b"\xa4step\xcd\x00\xc8"


def hdf5(version: int, size: int = 2048) -> bytes:
    wide = (8).to_bytes(1, "little") * 2
    head = b"\x89HDF\r\n\x1a\n" + bytes([version])
    if version < 2:
        head += bytes(4) + wide + bytes(1) + bytes(4 + 4 + (4 if version else 0)) + bytes(8) + b"\xff" * 8
    else:
        head += wide + bytes(1) + bytes(8) + b"\xff" * 8
    head += size.to_bytes(8, "little")
    return head + b"x" * (size - len(head))


@pytest.mark.parametrize("data", [gguf(), msgpack(), hdf5(0), hdf5(1), hdf5(2)], ids=["gguf", "msgpack", "hdf5-0", "hdf5-1", "hdf5-2"])
def test_the_size_that_a_header_states(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "step_200"
    path.write_bytes(data)
    got = look(context(folder("nvme", tmp_path), naming="step_{step}"))[1]
    assert slugs(got) == {"other-format"}, got.causes
    path.write_bytes(data[: len(data) * 2 // 3])
    got = look(context(folder("nvme", tmp_path), naming="step_{step}"))[1]
    assert of(got, "truncated").certainty is Certainty.CONFIRMED


def test_a_type_of_numbers_that_is_newer_than_the_reader(tmp_path: Path) -> None:
    path = tmp_path / "step_200.safetensors"
    header = json.dumps({"w": {"dtype": "F2_E1M0", "shape": [64], "data_offsets": [0, 16]}}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(range(1, 17)))
    got = look(context(folder("nvme", tmp_path), naming="step_{step}.safetensors"))[1]
    assert of(got, "beyond-reader").certainty is Certainty.POSSIBLE
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(range(1, 13)))
    got = look(context(folder("nvme", tmp_path), naming="step_{step}.safetensors"))[1]
    assert of(got, "truncated").certainty is Certainty.CONFIRMED


def test_a_folder_of_a_sharded_model_without_its_index(tmp_path: Path) -> None:
    """The names count themselves: one of three is not there."""
    save("safetensors", tmp_path / "made")
    for n in (1, 2, 3):
        target = tmp_path / "step_200" / f"model-{n:05d}-of-00003.safetensors"
        target.parent.mkdir(exist_ok=True)
        shutil.copy(tmp_path / "made" / "model.safetensors", target)
    ask = context(folder("share", tmp_path, shared=True), naming="step_{step}")
    assert "killed-mid-save" not in slugs(look(ask)[1])
    target.unlink()
    assert of(look(ask)[1], "killed-mid-save").certainty is Certainty.CONFIRMED
