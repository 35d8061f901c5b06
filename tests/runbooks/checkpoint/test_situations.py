"""Situations of checkpoint-fallback: evidence in a short form -> best checkpoint, causes, plans, cautions."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from runbooks.checkpoint.choose import choose
from runbooks.checkpoint.diagnose import diagnose
from runbooks.checkpoint.evidence import (
    Candidate,
    Evidence,
    FaultSeen,
    FileHolder,
    InstanceRole,
    Leftover,
    OtherNode,
    Pointer,
    Space,
    Store,
    TierFacts,
    Upload,
)
from runbooks.checkpoint.limits import Limits
from runbooks.core.checkpoints import Checkpoints, Tier
from runbooks.core.knowledge import load_runbook
from runbooks.core.plan import Plan
from runbooks.core.reading import Absent, Known, Unknown, UnknownReason
from runbooks.core.verdict import Certainty
from tests.support.yaml_file import read_yaml

SITUATIONS = read_yaml(Path(__file__).parent / "situations.yaml")
LIMITS = Limits(**load_runbook("checkpoint-fallback").limit_values())
NOW = datetime(2026, 1, 1, tzinfo=UTC)
SIZE = 10**9
SPACE = {"exists": True, "nearest": "/nvme/ckpt", "mode": 0o755, "total": 10**12, "free": 10**11, "available": 10**11,
         "inodes": 100, "inodes_free": 50, "device": "/dev/nvme0n1p1", "fs_type": "ext4", "write": "ok"}  # fmt: skip


def candidate(tier: str, step: int, state: str, more: dict[str, Any] | None = None) -> Candidate:
    name = f"checkpoint_step_{step}.pt"
    data: dict[str, Any] = {
        "name": name,
        "step": step,
        "size": SIZE,
        "identity": f"{tier}{step:030}",
        "format": "torch-zip",
        "checksummed": True,
    }
    if state in ("proven", "unprovable"):
        data |= {"content": state}
    elif state == "archived":
        data |= {"archived": "GLACIER", "format": "unknown"}
    elif state != "whole":
        data |= {"faults": (FaultSeen(kind=state, detail="as it was read"),)}
    return Candidate(**data | (more or {}))


def look(raw: dict[str, Any]) -> TierFacts:
    s3 = raw["name"] == "s3"
    where = "s3://bucket/run" if s3 else "/nvme/ckpt"
    listed = raw["c"]
    candidates: Any = Unknown(reason=UnknownReason.FAILED, detail="x") if listed is None else Absent(proof="no folder")
    if isinstance(listed, list):
        candidates = Known[tuple[Candidate, ...]](value=tuple(candidate(raw["name"], *c) for c in listed))
    data: dict[str, Any] = {"tier": raw["name"], "kind": raw.get("kind", "s3" if s3 else "nvme"),
    "node": "" if s3 else "a",
                            "where": where, "candidates": candidates}  # fmt: skip
    if s3:
        store = {"reached": True, "bucket": "bucket", "prefix": "run"} | raw.get("store", {})
        data["store"] = Known[Store](value=Store(**store))
        ups = tuple(
            Upload(key=k, upload_id=k, begun_s_ago=a, newest_part_s_ago=a, parts=1) for k, a in raw.get("uploads", [])
        )
        data["uploads"] = Known[tuple[Upload, ...]](value=ups)
        data["space"] = data["holders"] = Absent(proof="an object store")
    else:
        given = raw.get("space", {})
        given = {"free": given["available"], **given} if "available" in given else given
        data["space"] = Known[Space](value=Space(path=where, **SPACE | given))
        held = tuple(FileHolder(pid=p, start_ticks=1, command="x", path=f, writing=w) for p, f, w in raw.get("holders", []))
        data["holders"] = Known[tuple[FileHolder, ...]](value=held)
        data["store"] = data["uploads"] = Absent(proof="no object store")
    data["leftovers"] = tuple(
        Leftover(**n) if isinstance(n, dict) else Leftover(name=n) for n in raw.get("leftovers", [])
    )
    data["pointer"] = Absent(proof="there is none")
    if "pointer" in raw:
        data["pointer"] = Known[Pointer](value=Pointer(text=raw["pointer"], identity="p"))
    return TierFacts(**data)


def evidence(raw: dict[str, Any]) -> tuple[Evidence, Checkpoints]:
    tiers = tuple(
        Tier(name="s3", kind="s3", bucket="bucket", prefix="run") if t["name"] == "s3"
        else Tier(name=t["name"], kind=t.get("kind", "nvme"), path="/nvme/ckpt", limit_bytes=t.get("limit_bytes"))
        for t in raw["tiers"]
    )  # fmt: skip
    config = Checkpoints(**{"tiers": tiers, "step_seconds": 2, "gpus": 8, **raw.get("config", {})})
    others = tuple(
        OtherNode(node=n, tier="nvme", steps=Known[tuple[int, ...]](value=tuple(s)),
                  parts=tuple(candidate(n, *c) for c in raw.get("parts", {}).get(n, [])))
        for n, s in raw.get("others", {}).items()
    )  # fmt: skip
    seen = Evidence(
        node="a", taken_at=NOW, config=Known[Checkpoints](value=config), tiers=tuple(look(t) for t in raw["tiers"]),
        others=others, kernel=Known[tuple[str, ...]](value=()), node_credentials=Known[tuple[str, ...]](value=()),
        instance_roles=Known[tuple[InstanceRole, ...]](value=tuple(InstanceRole(**r) for r in raw.get("roles", ({"error": "timed out"},)))),
        load=Unknown(reason=UnknownReason.NOT_ASKED, detail="option load"),
        log=Known[str](value=raw["log"]) if "log" in raw else Unknown(reason=UnknownReason.NOT_ASKED),
        torch=Known[str](value=raw["torch"]) if "torch" in raw else Absent(proof="none"),
        hands_off=raw.get("hands_off", False),
    )  # fmt: skip
    return seen, config


def kinds(plans: tuple[Plan, ...]) -> set[str]:
    return {s.kind for p in plans for s in p.steps}


@pytest.mark.parametrize("raw", SITUATIONS, ids=lambda s: s["name"])
def test_situation(raw: dict[str, Any]) -> None:
    seen, config = evidence(raw)
    expect, got = raw["expect"], diagnose(seen, LIMITS)
    best = choose(seen, config).best
    assert ([best.candidate.step, best.look.tier] if best else None) == expect["best"]
    assert got.state == expect["state"], got.headline
    assert {c.slug for c in got.causes} == set(expect["causes"])
    if "plans" in expect:
        assert [p.name for p in got.plans] == expect["plans"]
    for kind in expect.get("no_steps", []):
        assert kind not in kinds(got.plans)
    if "deletes" in expect:
        (step,) = [s for p in got.plans for s in p.steps if s.kind == "prune-checkpoints"]
        assert [d["name"] for d in step.args["delete"]] == [f"checkpoint_step_{n}.pt" for n in expect["deletes"]]
    text = " | ".join((got.headline, *got.do_now, *got.must_not))
    assert expect.get("says", "") in text
    assert any(expect.get("must_not", "") in m for m in got.must_not)
    assert diagnose(Evidence.model_validate_json(seen.model_dump_json()), LIMITS) == got, "replay gives the same"
    for plan in got.plans:
        judged = [c.certainty for c in got.causes if c.slug in plan.for_causes]
        assert not judged or Certainty.CONFIRMED in judged


def test_costs_and_resume_setting() -> None:
    seen, _ = evidence({"tiers": [{"name": "nvme", "c": [[400, "crc"], [100, "proven"]]}]})
    got = diagnose(seen, LIMITS)
    assert got.do_now[0].startswith("Resume with `resume_from=/nvme/ckpt/checkpoint_step_100.pt`")
    assert got.waiting_costs == (
        "300 steps must be done again (the newest step that was saved at all is 400)",
        "1.3 GPU-hours",
    )
    assert "crc" in got.do_now[2]
