"""A torchrun command line as types: what the agent was really told. The script's arguments are not kept."""

import hashlib
import hmac
import re

from pydantic import Field

from runbooks.core.base import Frozen

_LAUNCH_MODULES = ("torch.distributed.run", "torch.distributed.launch", "torch.distributed.launcher")
_FLAGS = (
    "standalone",
    "no-python",
    "module",
    "run-path",
    "use-env",
    "disable-memory-safe",
    "virtual-local-rank",
)
_SHORT = {"-m": "module"}
_OPTIONS = (
    *_FLAGS,
    *("nnodes", "nproc-per-node", "rdzv-backend", "rdzv-endpoint", "rdzv-id", "rdzv-conf", "max-restarts"),
    *("monitor-interval", "start-method", "event-log-handler", "role", "log-dir", "redirects", "tee", "logs-specs"),
    *("local-ranks-filter", "node-rank", "master-addr", "master-port", "local-addr", "numa-binding"),
)
DEFAULT_RUN_ID = "none"


class AgentLaunch(Frozen):
    """One agent's settings."""

    run_id: str = DEFAULT_RUN_ID
    backend: str = "static"
    endpoint: str = ""
    conf: dict[str, str] = Field(default_factory=dict)
    min_nodes: int = 1
    max_nodes: int = 1
    per_node: str = "1"
    node_rank: str = "0"
    max_restarts: int = 0
    master_addr: str = ""
    master_port: int | None = None
    local_addr: str = ""
    standalone: bool = False
    script: str = ""
    script_digest: str = ""  # keyed hash of the script's arguments: equality only

    @property
    def keep_alive_s(self) -> float:
        """Seconds between heartbeats."""
        try:
            return float(self.conf.get("keep_alive_interval", "5"))
        except ValueError:
            return 5.0

    @property
    def join_s(self) -> float:
        """How long it waits for others."""
        try:
            return float(self.conf.get("join_timeout", self.conf.get("timeout", "600")))
        except ValueError:
            return 600.0


def launcher_at(argv: list[str]) -> int | None:
    """Index of the first argument after the launcher in `argv`; None: not torchrun."""
    for i, word in enumerate(argv[:8]):
        name = word.rsplit("/", 1)[-1]
        if name == "torchrun":
            return i + 1
        if word == "-m" and i + 1 < len(argv) and argv[i + 1] in _LAUNCH_MODULES:
            return i + 2
        if re.search(r"torch/distributed/(run|launch)\.py$", word):
            return i + 1
    return None


def parse_launch(argv: list[str], secret: bytes, env: dict[str, str] | None = None) -> AgentLaunch | None:
    """The settings in `argv`; None: not torchrun. `secret` keys the hash of the script's arguments.

    torchrun takes every option from PET_<OPTION> in its environment `env` as well; the command line wins.
    """
    start = launcher_at(argv)
    if start is None:
        return None
    given, script, rest = _split(argv[start:])
    pet = {k[4:].lower().replace("_", "-"): v for k, v in (env or {}).items() if k.startswith("PET_")}
    options = pet | given
    low, high = _nnodes(options.get("nnodes", "1:1"))
    standalone = options.get("standalone", "0") in ("", "1", "true", "True")
    return AgentLaunch(
        run_id=options.get("rdzv-id", DEFAULT_RUN_ID),
        backend="c10d" if standalone else options.get("rdzv-backend", "static"),
        endpoint=options.get("rdzv-endpoint", ""),
        conf=_conf(options.get("rdzv-conf", "")),
        min_nodes=low,
        max_nodes=high,
        per_node=options.get("nproc-per-node", "1"),
        node_rank=options.get("node-rank", "0"),
        max_restarts=_int(options.get("max-restarts"), 0) or 0,
        master_addr=options.get("master-addr", ""),
        master_port=_int(options.get("master-port"), None),
        local_addr=options.get("local-addr", ""),
        standalone=standalone,
        script=script,
        script_digest=hmac.new(secret, "\0".join(rest).encode(), hashlib.sha256).hexdigest()[:8],
    )


def with_options(argv: list[str], wanted: dict[str, str]) -> list[str]:
    """`argv` with these launcher options set, each in place of what it said; the script's arguments stay."""
    start = launcher_at(argv) or 0
    _, script, rest = _split(argv[start:])
    tail = [script, *rest] if script else []
    words, kept = argv[start : len(argv) - len(tail)], []
    skip = False
    for i, word in enumerate(words):
        name, equals, _ = word.lstrip("-").partition("=")
        hit = word.startswith("-") and _full(name) in wanted
        if not (hit or skip):
            kept.append(word)
        skip = hit and not equals and i + 1 < len(words)
    return [*argv[:start], *kept, *(f"--{k}={v}" for k, v in wanted.items()), *tail]


def _split(words: list[str]) -> tuple[dict[str, str], str, list[str]]:
    """Launcher options, the script (or module), and its arguments."""
    options: dict[str, str] = {}
    i = 0
    while i < len(words):
        word = words[i]
        if word in _SHORT:
            options[_SHORT[word]] = ""
        elif word.startswith("--") and "=" in word:
            name, value = word[2:].split("=", 1)
            options[_full(name)] = value
        elif word.startswith("--") and _full(word[2:]) in _FLAGS:
            options[_full(word[2:])] = ""
        elif word.startswith("-") and word != "--" and i + 1 < len(words):
            options[_full(word.lstrip("-"))] = words[i + 1]
            i += 1
        else:
            rest = words[i + 1 :] if word == "--" else words[i:]
            return options, (rest[0] if rest else ""), rest[1:]
        i += 1
    return options, "", []


def _full(name: str) -> str:
    """The option that a name or the beginning of one means: argparse takes `--rdzv-b` for `--rdzv-backend`."""
    name = name.replace("_", "-")
    meant = [o for o in _OPTIONS if o.startswith(name)]
    return meant[0] if name not in _OPTIONS and len(meant) == 1 else name


def _nnodes(text: str) -> tuple[int, int]:
    parts = text.split(":")
    low = _int(parts[0], 1) or 1
    return low, (_int(parts[1], low) or low) if len(parts) > 1 else low


def _conf(text: str) -> dict[str, str]:
    pairs = [p.split("=", 1) for p in text.split(",") if "=" in p]
    return {k.strip(): v.strip() for k, v in pairs if "cert" not in k and "pass" not in k}


def _int(text: str | None, default: int | None) -> int | None:
    try:
        return int(text) if text is not None else default
    except ValueError:
        return default
