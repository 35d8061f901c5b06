"""Names and numbers in a job's log about loading and saving checkpoints. What the words mean is judged elsewhere. Pure."""

import re

_NAMED = re.compile(r"Unsupported (?:global: GLOBAL|class) ([\w.]+)")
_PREFIX = re.compile(r"[\"'](module\.|_orig_mod\.)")
_LACKS = re.compile(r"KeyError: (?:[\"']param '(?P<said>\w+)' is not specified in param_groups|'(?P<key>[a-z]\w*)'\s*$)")
_OPTIMIZER = re.compile(r"\boptim(?:izers?)?[/\\]\w+\.py|\bgroup\[|\bparam_groups?\[")
NEAR = 6  # lines of a traceback between the optimizer's own and the error
_SAVED = re.compile(r"sav(?:ed|ing)\b.{0,60}checkpoint.{0,60}?(\d+(?:\.\d+)?)\s*(?:s|sec|seconds)\b", re.IGNORECASE)
_LOADED = re.compile(r"(?:resum\w+ from|load(?:ed|ing) checkpoint|torch\.load|load_state_dict)", re.IGNORECASE)


def refused_global(log: str) -> str:
    """The class or function that a loader says it refuses, "" where it names none."""
    found = _NAMED.search(log)
    return found[1] if found else ""


def key_prefix(log: str) -> str:
    """The wrapper's prefix in names of weights: `module.`, `_orig_mod.`, or ""."""
    found = _PREFIX.search(log)
    return found[1] if found else ""


def missing_setting(log: str) -> str:
    """The setting that a parameter group of an optimizer lacks ("betas"), "" where no error says so."""
    lines = log.splitlines()
    for i, line in enumerate(lines):
        found = _LACKS.search(line)
        if found and (found["said"] or any(_OPTIMIZER.search(x) for x in lines[max(0, i - NEAR) : i])):
            return found["said"] or found["key"]
    return ""


def save_seconds(log: str) -> tuple[float, ...]:
    """How long each save took, in seconds, where the log says it."""
    return tuple(float(m[1]) for m in _SAVED.finditer(log))


def speaks_of_loading(log: str) -> bool:
    """Whether a checkpoint is loaded in it."""
    return bool(_LOADED.search(log))
