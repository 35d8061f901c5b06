"""Who lives in a control group, by its path: the forms of Docker, Podman, containerd, Kubernetes, Slurm and systemd."""

import re

_NAMES = (
    (re.compile(r"(?:^|[/-])([0-9a-f]{12})[0-9a-f]{52}(?:\.scope)?$"), "container {}"),
    (re.compile(r"(?:^|[/-])pod([0-9a-f]{8})[0-9a-f_-]{28}(?:\.slice)?$"), "pod {}…"),
    (re.compile(r"/slurm[^/]*/.*\bjob_(\d+)"), "Slurm job {}"),
    (re.compile(r"([^/]+\.(?:service|scope))$"), "{}"),
    (re.compile(r"user-(\d+)\.slice$"), "the slice of user {}"),
)


def whose(group: str) -> str:
    """Who lives in a control group, in words: "container 27ebea4ac662", "Slurm job 42", "cgroup /jobs/a"."""
    found = ((pattern.search(group), words) for pattern, words in _NAMES)
    named = next((words.format(m[1]) for m, words in found if m), "")
    return named or (f"cgroup {group}" if group else "a cgroup that the kernel log does not name")
