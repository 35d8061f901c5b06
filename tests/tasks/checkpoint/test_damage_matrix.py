"""Every kind of damage against every format: broken ones are told, whole ones never refused; beside it, what
torch.load says."""

import io
from pathlib import Path

import pytest

from tests.support.ckpt_damage import DAMAGE
from tests.support.ckpt_files import FORMATS, Files, judge, need, save, spec_for, with_manifest

NO_CHECKSUM = ("torch-legacy", "safetensors", "safetensors-sharded")
ZERO_TAIL = "zero tail (preallocated, disk full)"
NEEDS_MANIFEST = {  # content faults of formats without checksums, and exchanged shards: a manifest tells them
    *((k, f) for f in NO_CHECKSUM for k in ("bit flip in tensor data", "4 KiB zero hole in tensor data",
    "two blocks exchanged", ZERO_TAIL)),
    ("bit flip in the object description", "torch-legacy"), ("shard of another step", "dcp"),
    ("shard of another step", "safetensors-sharded"),
    ("commit marker missing", "safetensors-sharded"),
}  # fmt: skip


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Files, Files]]:
    """Each format at step 100, and at step 200 with the same shapes."""
    root = tmp_path_factory.mktemp("whole")
    return {f: (save(f, root / f / "100"), save(f, root / f / "200", step=200, seed=1)) for f in FORMATS}


def cells() -> list[tuple[str, str]]:
    return [(kind, form) for kind in DAMAGE for form in FORMATS]


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("manifest", [False, True])
def test_whole_ones_pass(whole: dict[str, tuple[Files, Files]], form: str, manifest: bool) -> None:
    files = with_manifest(whole[form][0]) if manifest else whole[form][0]
    check = judge(files, spec_for(form))
    assert check.faults == []
    assert check.checksummed is (manifest or form not in NO_CHECKSUM)


@pytest.mark.parametrize(("kind", "form"), cells())
def test_damage_is_told(whole: dict[str, tuple[Files, Files]], kind: str, form: str) -> None:
    files, other = whole[form]
    broken = DAMAGE[kind](files, form, other)
    if broken is None:
        return  # this damage does not exist for this format
    assert broken != files, "the damage must change something"
    check = judge(broken, spec_for(form))
    if check.whole:
        assert (kind, form) in NEEDS_MANIFEST, f"{kind} of {form} passed as whole"
        assert kind != ZERO_TAIL or check.suspects, "zeros at the end are at least a suspicion"
        sealed = with_manifest(files)
        broken = DAMAGE[kind](sealed, form, other) or {}
        assert not judge(broken, spec_for(form)).whole, f"{kind} of {form} passed in spite of a manifest"


def test_enough_kinds_and_what_torch_says(whole: dict[str, tuple[Files, Files]]) -> None:
    """torch.load takes some broken files without a word; ours refuses each of them."""
    torch = need("torch")
    silent, told = [], 0
    files, other = whole["torch-zip"]
    for kind, damage in DAMAGE.items():
        broken = damage(files, "torch-zip", other)
        if broken is None or "ckpt.pt" not in broken:
            continue
        told += not judge(broken, spec_for("torch-zip")).whole
        try:
            torch.load(io.BytesIO(broken["ckpt.pt"]), weights_only=True)
            silent.append(kind)
        except Exception:  # noqa: S112 - any complaint counts
            continue
    assert len(DAMAGE) >= 25
    assert {
        "bit flip in tensor data",
        "4 KiB zero hole in tensor data",
        "trailing garbage",
        "byteorder absent",
    } <= set(silent)
    assert told >= 25


def test_written_by_hand_is_not_needed(tmp_path: Path) -> None:
    """A file without checksums (a torch option) is whole, and the answer says that content is unproven."""
    torch = need("torch")
    torch.serialization.set_crc32_options(False)
    try:
        torch.save({"model_state_dict": {"w": torch.ones(9)}, "step": 100}, tmp_path / "ckpt.pt")
    finally:
        torch.serialization.set_crc32_options(True)
    check = judge({"ckpt.pt": (tmp_path / "ckpt.pt").read_bytes()}, spec_for("torch-zip"))
    assert check.whole
    assert not check.checksummed
