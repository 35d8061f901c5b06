"""Small makers of causes, shared by the parts of the judgment."""

from runbooks.core.verdict import Cause, Certainty
from runbooks.parsers.torchrun_cmdline import launcher_at, with_options
from runbooks.rendezvous.evidence import Agent


def confirmed(slug: str, subject: str, *evidence: str, decides: tuple[str, ...] = ()) -> Cause:
    """A cause that was proven."""
    return Cause(slug=slug, certainty=Certainty.CONFIRMED, subject=subject, evidence=evidence, decides=decides)


def likely(slug: str, subject: str, *evidence: str, decides: tuple[str, ...] = ()) -> Cause:
    """A cause that fits, with a rival."""
    return Cause(slug=slug, certainty=Certainty.LIKELY, subject=subject, evidence=evidence, decides=decides)


def possible(slug: str, subject: str, *evidence: str, decides: tuple[str, ...] = ()) -> Cause:
    """A cause that something speaks for, and that a reading is missing for."""
    return Cause(slug=slug, certainty=Certainty.POSSIBLE, subject=subject, evidence=evidence, decides=decides)


def benign(slug: str, subject: str, *evidence: str) -> Cause:
    """Something that must be left alone."""
    return Cause(slug=slug, certainty=Certainty.CONFIRMED, subject=subject, evidence=evidence, benign=True)


def command_line(agent: Agent, **changes: str) -> str:
    """The agent's own command line with some options changed; secrets in it stay replaced."""
    wanted = {k.replace("_", "-"): v for k, v in changes.items()}
    argv = agent.command.split(" ")
    if launcher_at(argv) is not None:
        return " ".join(with_options(argv, wanted))
    launch = agent.launch
    options = {
        "nnodes": f"{launch.min_nodes}:{launch.max_nodes}",
        "nproc-per-node": launch.per_node,
        "rdzv-backend": launch.backend,
        "rdzv-endpoint": launch.endpoint,
        "rdzv-id": launch.run_id,
        "rdzv-conf": ",".join(f"{k}={v}" for k, v in launch.conf.items()),
        "max-restarts": str(launch.max_restarts),
    } | wanted
    words = [f"--{k}={v}" for k, v in options.items() if v]
    return " ".join(["torchrun", *words, launch.script or "SCRIPT", "…"])
