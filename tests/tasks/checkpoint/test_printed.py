"""The commands of a report, pasted into a shell, repair the places of checkpoints."""

import re
import subprocess
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from runbooks.checkpoint.diagnose import diagnose
from runbooks.checkpoint.limits import Limits
from runbooks.core.kinds import undo_of
from runbooks.core.plan import Plan, Step
from runbooks.core.reading import Known
from runbooks.core.verdict import Diagnosis
from tasks.checkpoint.probes.ckpt_files import identity, members
from tests.support.ckpt_fleet import LIMITS, Shelf, context, do, folder, look, plan
from tests.support.need import need_program
from tests.support.printed import by_hand
from tests.support.s3 import Proxy, S3Server
from tests.support.smallfs import fill, tmpfs
from tests.tasks.checkpoint.test_local import break_it
from tests.tasks.checkpoint.test_s3 import candidates, put, tier


def typed(found: Plan) -> tuple[Step, ...]:
    done = by_hand(found.steps)
    assert done.returncode == 0, (found.steps, done.stderr)
    return found.steps


def slugs(found: Diagnosis) -> set[str]:
    return {c.slug for c in found.causes}


def test_a_bad_one_is_renamed(shelf: Shelf, tmp_path: Path) -> None:
    good, bad = shelf.put(tmp_path, 100, 200)
    break_it(bad)
    ctx = context(folder("nvme", tmp_path))
    (step,) = typed(plan(look(ctx)[1], "quarantine the bad ones"))
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted((good.name, step.args["to"]))
    assert "bit-flip" not in slugs(look(ctx)[1])


def test_what_the_action_says_of_its_undo_undoes_it(shelf: Shelf, tmp_path: Path) -> None:
    """Typed as the report shows it, after the action itself."""
    good, bad = shelf.put(tmp_path / "a", 100, 200)
    break_it(bad)
    ctx = context(folder("nvme", tmp_path / "a"))
    (step,) = plan(look(ctx)[1], "quarantine the bad ones").steps
    _, undo = undo_of(step, do(step, ctx).facts)
    assert not bad.exists()
    subprocess.run(["sh", "-c", "\n".join(undo)], check=True)
    assert (good.exists(), bad.exists()) == (True, True)
    ctx = context(folder("nvme", tmp_path / "gone"))
    (step,) = plan(look(ctx)[1], "create folder of nvme").steps
    _, undo = undo_of(step, do(step, ctx).facts)
    assert (tmp_path / "gone").is_dir()
    subprocess.run(["sh", "-c", "\n".join(undo)], check=True)
    assert not (tmp_path / "gone").exists()


def test_old_ones_go(shelf: Shelf, tmp_path: Path) -> None:
    share = tmp_path / "share"
    with tmpfs(tmp_path / "nvme", "4m") as nvme:
        shelf.put(nvme, 100, 200, 300, 400, 500)
        shelf.put(share, 100, 200)
        fill(nvme)
        ctx = context(folder("nvme", nvme, keep=2), folder("share", share))
        typed(plan(look(ctx)[1], "prune nvme of a"))
        assert sorted(p.name for p in nvme.glob("checkpoint*")) == [f"checkpoint_step_{n}.pt" for n in (300, 400, 500)]
        assert "disk-full" not in slugs(look(ctx)[1])


def test_a_copy_arrives_whole(s3: S3Server, admin: None, shelf: Shelf, tmp_path: Path) -> None:
    need_program("aws", "awscli")
    nvme = tmp_path / "nvme"
    nvme.mkdir()
    (path,) = shelf.put(tmp_path / "src", 300)
    put(s3, "typed", path)
    ctx = context(folder("nvme", nvme), tier(s3, "typed"))
    typed(plan(look(ctx)[1], "copy step 300 to nvme"))
    assert [p.name for p in nvme.iterdir()] == [path.name]
    assert (nvme / path.name).read_bytes() == path.read_bytes()
    assert "tier-lacks-it" not in slugs(look(ctx)[1])
    up = context(folder("nvme", nvme), tier(s3, "typed-up"))
    (step,) = typed(plan(look(up)[1], "copy step 300 to s3"))
    assert s3.client().get_object(Bucket="ckpt", Key=f"typed-up/{path.name}")["Body"].read() == path.read_bytes()
    assert by_hand([step]).returncode != 0, "nothing is ever replaced"


def test_an_old_upload_goes(s3: S3Server, admin: None, shelf: Shelf, tmp_path: Path) -> None:
    """Two days later by this machine's clock; the upload of another prefix stays."""
    need_program("aws", "awscli")
    put(s3, "typed-mp", *shelf.put(tmp_path, 100))
    for prefix in ("typed-mp", "typed-mp-beside"):
        given = {"Bucket": "ckpt", "Key": f"{prefix}/checkpoint_step_200.pt"}
        upload = s3.client().create_multipart_upload(**given)["UploadId"]
        s3.client().upload_part(PartNumber=1, Body=b"x" * 100, UploadId=upload, **given)
    later = replace(context(tier(s3, "typed-mp")), now=lambda: datetime.now(UTC) + timedelta(days=2))
    typed(plan(look(later)[1], "abort old uploads"))
    left = s3.client().list_multipart_uploads(Bucket="ckpt", Prefix="typed-mp")["Uploads"]
    assert [u["Key"] for u in left] == ["typed-mp-beside/checkpoint_step_200.pt"]
    assert "s3-incomplete-multipart" not in slugs(look(later)[1])


def test_an_archived_one_is_asked_for(s3: S3Server, admin: None, shelf: Shelf, tmp_path: Path) -> None:
    """No server of the tests has an archive: a proxy says so, and takes the request as the service's reference has it."""
    need_program("aws", "awscli")
    paths = shelf.put(tmp_path, 200, 300)
    put(s3, "typed-cold", *paths)
    proxy = Proxy(s3.port)
    proxy.storage = "GLACIER"
    try:
        ctx = context(tier(s3, "typed-cold", endpoint=proxy.url))
        typed(plan(look(ctx)[1], "restore archived step 300"))
        (asked,) = proxy.restores.items()
        assert asked[0] == "/ckpt/typed-cold/checkpoint_step_300.pt", "the newest, and no other"
        assert re.search(r"<Days>3</Days>.*<Tier>Standard</Tier>", asked[1])
        evidence, found = look(ctx)
        restoring = {c.step: c.restoring for c in candidates(evidence.tiers[0])}
        assert restoring == {200: False, 300: True}
        assert "restore archived step 300" not in [p.name for p in found.plans]
    finally:
        proxy.stop()


def test_a_missing_folder_is_made(tmp_path: Path) -> None:
    ctx = context(folder("nvme", tmp_path / "gone"))
    typed(plan(look(ctx)[1], "create folder of nvme"))
    assert "directory-missing" not in slugs(look(ctx)[1])


def test_a_folders_mode_is_restored(shelf: Shelf, tmp_path: Path) -> None:
    """Root may write anywhere, so that what its owner meets is told to the judgment; folder, mode and command are real."""
    place = tmp_path / "nvme"
    shelf.put(place, 100)
    place.chmod(0o500)
    seen, _ = look(context(folder("nvme", place)))
    space = seen.tiers[0].space
    assert isinstance(space, Known)
    denied = space.model_copy(update={"value": space.value.model_copy(update={"write": "EACCES", "asking_uid": space.value.uid})})
    told = seen.model_copy(update={"tiers": (seen.tiers[0].model_copy(update={"space": denied}),)})
    typed(plan(diagnose(told, Limits(**LIMITS)), "restore modes of nvme"))
    assert place.stat().st_mode & 0o7777 == 0o700


def test_the_pointer_names_a_whole_one(shelf: Shelf, tmp_path: Path) -> None:
    shelf.put(tmp_path, 100, 200)
    break_it(tmp_path / "checkpoint_step_200.pt")
    latest = tmp_path / "latest"
    latest.write_text("checkpoint_step_200.pt")
    ctx = context(folder("nvme", tmp_path))
    (step,) = plan(look(ctx)[1], "repoint latest of nvme").steps
    latest.write_text("checkpoint_step_150.pt")
    by_hand([step])
    assert latest.read_text() == "checkpoint_step_150.pt", "another text than the judged one stays"
    latest.write_text("checkpoint_step_200.pt")
    typed(plan(look(ctx)[1], "repoint latest of nvme"))
    assert latest.read_text() == "checkpoint_step_100.pt"
    assert "pointer-wrong" not in slugs(look(ctx)[1])


def broken_off(shelf: Shelf, where: Path) -> Path:
    """As a deletion leaves it that was killed before it removed anything."""
    old, _ = shelf.put(where, 100, 300)
    return old.rename(where / f"{old.name}.deleting-{identity(members(str(old)))[:8]}.tmp")


def test_an_untouched_one_gets_its_name_back(shelf: Shelf, tmp_path: Path) -> None:
    broken_off(shelf, tmp_path)
    ctx = context(folder("nvme", tmp_path))
    typed(plan(look(ctx)[1], "put back what was not deleted on nvme"))
    assert (tmp_path / "checkpoint_step_100.pt").is_file()
    assert "deletion-unfinished" not in slugs(look(ctx)[1])


def test_the_rest_of_a_deletion_goes(shelf: Shelf, tmp_path: Path) -> None:
    left = broken_off(shelf, tmp_path)
    left.write_bytes(left.read_bytes()[:1000])
    ctx = context(folder("nvme", tmp_path))
    typed(plan(look(ctx)[1], "finish the deletion on nvme"))
    assert [p.name for p in tmp_path.iterdir()] == ["checkpoint_step_300.pt"]
    assert "deletion-unfinished" not in slugs(look(ctx)[1])
