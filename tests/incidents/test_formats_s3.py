"""A save to a store whose last copy failed: everything is there but the commit marker's final name (T2-12)."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from runbooks.core.checkpoints import Tier
from runbooks.core.verdict import Certainty, Diagnosis
from tests.incidents.test_formats import lets_it_stay, of, slugs
from tests.support.ckpt_fleet import Shelf, context, look
from tests.support.s3 import S3Server

LATER = timedelta(seconds=1000)  # nobody can age an object: the look comes later


def saved(s3: S3Server, tmp_path: Path, prefix: str, leave_out: str = "") -> Diagnosis:
    """Steps 100 (whole) and 200 (its marker not renamed) below `prefix`."""
    shelf = Shelf(tmp_path / "shelf")
    for path in shelf.put(tmp_path / "made", 100, 200, form="dcp"):
        for file in sorted(path.iterdir()):
            name = ".metadata.tmp" if file.name == ".metadata" and path.name == "step_200" else file.name
            if name != leave_out or path.name == "step_100":
                s3.client().put_object(Bucket="ckpt", Key=f"{prefix}/{path.name}/{name}", Body=file.read_bytes())
    tier = Tier(name="s3", kind="s3", bucket="ckpt", prefix=prefix, endpoint=s3.url)
    return look(replace(context(tier, naming="step_{step}"), now=lambda: datetime.now(UTC) + LATER))[1]


@pytest.mark.incident("T2-12", came="right", fed="readers", known=True)
def test_a_copy_in_the_store_that_failed(s3: S3Server, admin: None, tmp_path: Path) -> None:
    got = saved(s3, tmp_path, "run lr=1e-4+a")
    cause = of(got, "rename-missing")
    assert cause.certainty is Certainty.CONFIRMED
    assert any("'='" in line and "' '" in line for line in cause.evidence), cause.evidence
    assert got.headline.startswith("Step 200 on s3 is whole, but its commit marker still has a temporary name")
    assert not slugs(got) & {"killed-mid-save", "s3-throttled", "s3-permission"}
    lets_it_stay(got, 200)


@pytest.mark.incident("T2-12", came="right", fed="readers", known=True, twin="a plain prefix: the copy failed for another reason")
def test_a_plain_prefix_says_nothing_of_characters(s3: S3Server, admin: None, tmp_path: Path) -> None:
    got = saved(s3, tmp_path, "run-plain")
    assert not any("escape" in line for line in of(got, "rename-missing").evidence)


@pytest.mark.incident("T2-12", came="right", fed="readers", known=True, twin="a shard is not in the store")
def test_a_shard_that_never_came(s3: S3Server, admin: None, tmp_path: Path) -> None:
    got = saved(s3, tmp_path, "run a=b", leave_out="__0_0.distcp")
    assert of(got, "killed-mid-save").certainty is Certainty.CONFIRMED
    assert got.headline.startswith("Resume from step 100")
