"""Which cause the engine's own words about a failed start name, by the knowledge base."""

from runbooks.container_death.evidence import ContainerFacts
from runbooks.container_death.words import cause
from runbooks.core.verdict import Cause, Certainty
from runbooks.triage.text import meanings

MEANS = {
    "stale-fuse": ("container-death/stale-fuse",),
    "devices-lost": ("container-death/devices-lost", "stuck-spawning/gpu-broken-on-host"),
    "disk-full": ("container-death/disk-full",),
    "image-gone": ("container-death/image-gone", "stuck-spawning/image-not-found", "stuck-spawning/image-unpullable"),
    "mount-gone": ("container-death/mount-gone",),
    "bad-command": ("container-death/bad-command",),
}  # our causes of a start that was refused, and every name that the knowledge base has for them


def start_error(c: ContainerFacts) -> Cause:
    """The cause named by State.Error, else `start-refused`."""
    words = f"the engine could not start it: {c.error}"
    for slug in meanings(c.error, MEANS):
        return cause(slug, Certainty.CONFIRMED, f"container {c.name}", words, f"exit code {c.exit_code}")
    return cause(
        "start-refused",
        Certainty.LIKELY,
        f"container {c.name}",
        words,
        decides=("the engine's log at that time",),
    )
