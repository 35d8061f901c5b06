"""Checks the numbers and names that decide how many workers are spawned, and of what. Pure."""

import re
from collections.abc import Iterator

from runbooks.core.nightly import SystemCheck
from tasks.systems.trying import check_of

NUMBERS = (("MIN_ACTIVE_GPUS", 0), ("MAX_ACTIVE_GPUS", 1), ("GPU_IDLE_TIMEOUT_SEC", 1), ("TASKS_PER_GPU_THRESHOLD", 1))
LEAST_IDLE_S = 120  # shorter than the start of a pod takes: it would be ended before its first task
IMAGE = re.compile(r"[a-z0-9][\w.\-/:]*(:[\w][\w.\-]{0,127}|@sha256:[0-9a-f]{64})")


def check_scaling(found: dict[str, str]) -> Iterator[SystemCheck]:
    """Every one that is not sane, with what it should be."""
    numbers: dict[str, int] = {}
    for name, least in NUMBERS:
        text = found.get(name, "").strip()
        if text.isdecimal() and int(text) >= least:
            numbers[name] = int(text)
        elif text:
            yield check_of("scaling", "FAULT", f"{name} is {text[:20]!r}", f"a whole number of at least {least}")
        else:
            yield check_of("scaling", "note", f"{name} is not set: the orchestrator's default applies")
    if numbers.get("MIN_ACTIVE_GPUS", 0) > numbers.get("MAX_ACTIVE_GPUS", 1 << 30):
        yield check_of(
            "scaling", "FAULT", "MIN_ACTIVE_GPUS is above MAX_ACTIVE_GPUS", "no worker can satisfy both: lower one"
        )
    idle = numbers.get("GPU_IDLE_TIMEOUT_SEC")
    if idle is not None and idle < LEAST_IDLE_S:
        yield check_of("scaling", "note", f"GPU_IDLE_TIMEOUT_SEC is {idle} s: shorter than the start of a pod takes")
    yield from _names(found)


def _names(found: dict[str, str]) -> Iterator[SystemCheck]:
    for name in ("RUNPOD_STORAGE_NAME", "RUNPOD_GPU_TYPE", "RUNPOD_WORKER_IMAGE"):
        text = found.get(name, "")
        if not text.strip():
            yield check_of("scaling", "note", f"{name} is not set")
        elif text != text.strip() or text[:1] in "'\"":
            yield check_of("scaling", "FAULT", f"{name} has blanks or quotes around it", "write the bare value")
        elif name.endswith("IMAGE") and not IMAGE.fullmatch(text):
            yield check_of("scaling", "FAULT", f"{name} is not an image name with a tag or digest", "registry/name:tag")
