"""Which cause the engine's own words about a failed start name."""

import re

from runbooks.container_death.evidence import ContainerFacts
from runbooks.container_death.words import cause
from runbooks.core.verdict import Cause, Certainty

PATTERNS = (
    ("stale-fuse", r"transport endpoint is not connected"),
    (
        "devices-lost",
        r"device information while adding custom device|/dev/(nvidia|accel|dri|vfio|fuse)\S*:? no such",
    ),
    ("devices-lost", r"nvidia-container-cli.*(device error|no such device|unknown device|nvml error|driver)"),
    ("devices-lost", r"could not select device driver|failed to inject CDI|unresolvable CDI devices"),
    ("disk-full", r"no space left on device|disk quota exceeded"),
    ("image-gone", r"no such image|manifest unknown|error getting image|layer does not exist"),
    (
        "mount-gone",
        r"bind source path does not exist|error mounting|mount source path|not a directory.*mount",
    ),
    ("bad-command", r"exec: .*(no such file or directory|executable file not found|permission denied)"),
)


def start_error(c: ContainerFacts) -> Cause:
    """The cause named by State.Error, else `start-refused`."""
    words = f"the engine could not start it: {c.error}"
    for slug, pattern in PATTERNS:
        if re.search(pattern, c.error, re.I):
            return cause(slug, Certainty.CONFIRMED, f"container {c.name}", words, f"exit code {c.exit_code}")
    return cause(
        "start-refused",
        Certainty.LIKELY,
        f"container {c.name}",
        words,
        decides=("the engine's log at that time",),
    )
