"""Names and numbers in a job's log about loading and saving checkpoints. What the words mean is judged elsewhere. Pure."""

import re

_NAMED = re.compile(r"Unsupported (?:global: GLOBAL|class) ([\w.]+)")
_NAMES = re.compile(r"\b(Missing|Unexpected) key\(s\) in state_dict:(.*?)(?=\b(?:Missing|Unexpected) key\(s\)|$)", re.MULTILINE)
_OLD_NAMES = re.compile(  # of torch before 0.4
    r"\b(?:(unexpected) key (\"[^\"\s]+\") in state_dict|(missing) keys in state_dict: \"\{([^}]*)\})"
)
_OLD_NAME = re.compile(r"['\"]([^'\"\s]+)['\"]")
_NAME = re.compile(r"\"([^\"\s]+)\"")
WRAPPERS = ("module", "_orig_mod", "_forward_module", "_fsdp_wrapped_module")
_LACKS = re.compile(r"KeyError: (?:[\"']param '(?P<said>\w+)' is not specified in param_groups|'(?P<key>[a-z]\w*)'\s*$)")
_OPTIMIZER = re.compile(r"\boptim(?:izers?)?[/\\]\w+\.py|\bgroup\[|\bparam_groups?\[")
NEAR = 6  # lines of a traceback between the optimizer's own and the error
_NO_MODULE = re.compile(r"\b(?:ModuleNotFoundError|ImportError): No module named '?([A-Za-z_][\w.]*)'?")
_NO_CLASS = re.compile(
    r"\bAttributeError: (?:Can't get attribute '(\w+)' on <module '([\w.]+)'|module '([\w.]+)' has no attribute '(\w+)')"
)
_SAVED = re.compile(r"sav(?:ed|ing)\b.{0,60}checkpoint.{0,60}?(\d+(?:\.\d+)?)\s*(?:s|sec|seconds)\b", re.IGNORECASE)
_LOADED = re.compile(r"(?:resum\w+ from|load(?:ed|ing) checkpoint|torch\.load|load_state_dict)", re.IGNORECASE)


def refused_global(log: str) -> str:
    """The class or function that a loader says it refuses, "" where it names none."""
    found = _NAMED.search(log)
    return found[1] if found else ""


def key_prefix(log: str) -> str:
    """The wrapper whose part in names of weights (`module.`, `_orig_mod.`), at any place of them, is all that differs; "" if none.

    Where the log names only one side: the wrapper that those names begin with."""
    sides: dict[str, set[str]] = {"Missing": set(), "Unexpected": set()}
    for said, rest in _NAMES.findall(log):
        sides[said].update(_NAME.findall(rest))
    for more, one, lacking, several in _OLD_NAMES.findall(log.replace("\\'", "'")):
        sides[(more or lacking).capitalize()].update(_OLD_NAME.findall(one or several))
    missing, unexpected = sides.values()
    for wrapper in WRAPPERS:
        if missing and unexpected:
            alike = {_without(n, wrapper) for n in missing} & {_without(n, wrapper) for n in unexpected}
            if alike and any(wrapper in n.split(".") for n in missing | unexpected):
                return f"{wrapper}."
        elif any(n.startswith(f"{wrapper}.") for n in missing | unexpected):
            return f"{wrapper}."
    return ""


def _without(name: str, part: str) -> str:
    return ".".join(p for p in name.split(".") if p != part)


def missing_setting(log: str) -> str:
    """The setting that a parameter group of an optimizer lacks ("betas"), "" where no error says so."""
    lines = log.splitlines()
    for i, line in enumerate(lines):
        found = _LACKS.search(line)
        if found and (found["said"] or any(_OPTIMIZER.search(x) for x in lines[max(0, i - NEAR) : i])):
            return found["said"] or found["key"]
    return ""


def missing_code(log: str) -> str:
    """The module or `module.Class` that the last such error of the log finds nowhere, "" where there is none."""
    found = [(m.start(), m[1]) for m in _NO_MODULE.finditer(log)]
    found += [(m.start(), f"{m[2] or m[3]}.{m[1] or m[4]}") for m in _NO_CLASS.finditer(log)]
    return max(found)[1] if found else ""


def save_seconds(log: str) -> tuple[float, ...]:
    """How long each save took, in seconds, where the log says it."""
    return tuple(float(m[1]) for m in _SAVED.finditer(log))


def speaks_of_loading(log: str) -> bool:
    """Whether a checkpoint is loaded in it."""
    return bool(_LOADED.search(log))
