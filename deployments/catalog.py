"""Every deployment, once: what `gpu-runbooks up` registers and what prefect.yaml says are both made from here."""

from dataclasses import dataclass

from flows import store
from flows.specs import SLUGS, entrypoint
from flows.ui_pages import START_UNKNOWN
from runbooks.core.knowledge import load_runbook

CRON, ZONE, SWEEP_EVERY_S = "30 3 * * *", "UTC", 300


@dataclass(frozen=True)
class DeploymentSpec:
    """One deployment; flow and deployment have the same name."""

    name: str
    entrypoint: str  # module.function
    description: str = ""
    tags: tuple[str, ...] = ()
    cron: str = ""
    every_s: int = 0
    takes: tuple[str, ...] = ()  # which of fleet and policy it is given


BEGIN = "[What waits, what is wrong now, how to run something]({})\n\n"

NIGHTLY = """Every runbook that can apply, on every node, in diagnose mode; one report. **Changes nothing.**

It never overlaps with itself. A second one ends as *Skipped*, and so does one that starts hours late
(a missed night is not repeated). Change time and time zone under *Schedules*."""
SWEEP = """Standing zombie detection: the nightly's zombie-GPU check every five minutes. **Changes nothing.**

Off until you switch its schedule on."""
SHARD = "A part of a nightly with `shards` above 1. The nightly starts it; **never start it by hand.**"


def programs(start: str = START_UNKNOWN) -> tuple[DeploymentSpec, ...]:
    """What workers run: one per runbook, the nightly, its shards, the standing sweep. `start`: the page to begin with on that server."""
    begin = BEGIN.format(start)
    return (
        *(_runbook(s, begin) for s in SLUGS),
        _sweep("nightly", begin + NIGHTLY, cron=CRON, takes=("fleet", "policy")),
        _sweep("nightly-shard", begin + SHARD, takes=("fleet",)),
        _sweep("sweep", begin + SWEEP, every_s=SWEEP_EVERY_S, takes=("fleet",)),
    )


def _runbook(slug: str, begin: str) -> DeploymentSpec:
    return DeploymentSpec(
        slug,
        entrypoint(slug),
        description=begin + describe(slug),
        tags=(store.RUNBOOK_TAG, f"runbook:{slug}"),
        takes=("fleet", "policy"),
    )


def _sweep(name: str, about: str, cron: str = "", every_s: int = 0, takes: tuple[str, ...] = ()) -> DeploymentSpec:
    tags = (store.RUNBOOK_TAG, f"runbook:{name}")
    return DeploymentSpec(name, entrypoint(name), description=about, tags=tags, cron=cron, every_s=every_s, takes=takes)


def describe(slug: str) -> str:
    """What a runbook is for, in Markdown, from its runbook.yaml."""
    book = load_runbook(slug)
    causes = "\n".join(f"- **{c.title}**{' (leave alone)' if c.benign else ''}" for c in book.causes.values())
    symptoms = "\n".join(f"- {s}" for s in book.symptoms)
    return (
        f"# {book.title}\n\n{book.summary}\n\nOne run is about {book.target}.\n\n"
        f"## Symptoms\n\n{symptoms}\n\n## Causes\n\n{causes}"
    )
