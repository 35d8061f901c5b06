"""Checks the training configuration: traps of YAML, unknown keys, values that cannot work together."""

import difflib
from collections.abc import Iterator
from typing import Any

import yaml

from runbooks.core.launch_config import Launch
from runbooks.core.verdict import Cause, Certainty
from runbooks.launch.evidence import ConfigText
from runbooks.launch.parsers.launch_kind import started_by
from runbooks.launch.parsers.yaml_traps import SWALLOWED, Loader, Trap, find_traps, is_exponent
from runbooks.parsers.torchrun_cmdline import parse_launch

LATER = "which value the program takes: the command line names this key as well"
MEANT = "whether a key or a text (image and tag, host and port) is meant: the launch's `keys` in the fleet file"


def config_causes(config: ConfigText, launch: Launch) -> list[Cause]:
    """Every fault in the file, each with file, line, column and the corrected line."""
    traps = [t for t in find_traps(config.text, Loader(launch.loader)) if not _is_text(t, launch)]
    try:
        root = yaml.compose(config.text, Loader=yaml.SafeLoader)
    except yaml.YAMLError:
        root = None
    if root is not None:
        lines = config.text.splitlines()
        entries = list(_entries(root, "", set()))
        traps += [*_unknown(entries, launch, lines), *_values(entries, launch, lines)]
    return [_cause(t, config.path, launch) for t in sorted(traps, key=lambda t: (t.line, t.column))]


def _is_text(trap: Trap, launch: Launch) -> bool:
    """Whether `name:value` can only be meant as text: all keys of the program are given, and none is called alike."""
    name, leaves = _lost_key(trap), _leaves(launch)
    return bool(name and leaves) and not trap.fails and not difflib.get_close_matches(name, leaves, n=1, cutoff=0.6)


def _lost_key(trap: Trap) -> str:
    return trap.found.strip().partition(":")[0] if trap.kind == SWALLOWED else ""


def _leaves(launch: Launch) -> set[str]:
    return {key.rsplit(".", 1)[-1] for key in launch.keys}


def _sure(trap: Trap, launch: Launch) -> Certainty:
    """What cannot be meant is confirmed. Text with a colon may be an image and its tag or a host and its port: a key that the
    program knows excludes that, and a number that is neither tag nor port makes it likely."""
    if trap.kind == "config-value" and _set_later(trap, launch):
        return Certainty.LIKELY
    if trap.fails or _lost_key(trap) in _leaves(launch):
        return Certainty.CONFIRMED
    value = trap.found.strip().partition(":")[2]
    return Certainty.LIKELY if not _lost_key(trap) or is_exponent(value) else Certainty.POSSIBLE


def _set_later(trap: Trap, launch: Launch) -> bool:
    """Whether the command line gives that key a value, which may come after the file's: --min-nodes=2, elastic.min_nodes=2."""
    flags = [w for w in launch.command if w.startswith("-") or "=" in w]
    names = {w.lstrip("-+").partition("=")[0].rpartition(".")[2].replace("-", "_") for w in flags}
    return trap.found.partition(":")[0].strip() in names


def _cause(trap: Trap, path: str, launch: Launch) -> Cause:
    words = [trap.message, f"found: {trap.found.strip()}"]
    if trap.corrected:
        words.append(f"corrected: {trap.corrected.rstrip()}")
    certainty = _sure(trap, launch)
    ask = LATER if trap.kind == "config-value" else MEANT if _lost_key(trap) else "what its author meant"
    decides = () if certainty is Certainty.CONFIRMED else (ask,)
    where = f"{path}:{trap.line}:{trap.column}"
    fix = f"{where}: {trap.corrected.rstrip()}" if trap.corrected else ""
    return Cause(slug=trap.kind, certainty=certainty, subject=where, evidence=tuple(words), decides=decides, fix=fix)


Entry = tuple[str, yaml.Node, yaml.Node]  # dotted path, key node, value node


def _entries(node: yaml.Node, prefix: str, seen: set[int]) -> Iterator[Entry]:
    """Every key of every mapping."""
    if id(node) in seen or not isinstance(node, yaml.MappingNode):
        return
    seen.add(id(node))
    for key, value in node.value:
        path = f"{prefix}{key.value}"
        yield path, key, value
        yield from _entries(value, f"{path}.", seen)


def _unknown(entries: list[Entry], launch: Launch, lines: list[str]) -> Iterator[Trap]:
    """Keys that the program does not know, with the nearest that it does."""
    known = set(launch.keys)
    parents = {k.rsplit(".", n)[0] for k in known for n in range(1, k.count(".") + 1)}
    for path, key, _ in entries:
        if not known or path in known or path in parents or any(path.startswith(k + ".") for k in known):
            continue
        near = difflib.get_close_matches(path, sorted(known | parents), n=1, cutoff=0.6)
        words = f"unknown key {path!r}" + (f"; did you mean {near[0]!r}?" if near else "")
        name = near[0].rsplit(".", 1)[-1] if near else ""
        elsewhere = name in ("", key.value)  # the right word in the wrong section: no other word mends the line
        fixed = "" if elsewhere else lines[key.start_mark.line].replace(str(key.value), name, 1)
        yield _at("yaml-unknown-key", key, lines, words, fixed)


def _at(kind: str, node: yaml.Node, lines: list[str], message: str, corrected: str = "", fails: bool = True) -> Trap:
    mark = node.start_mark
    return Trap(
        kind=kind,
        line=mark.line + 1,
        column=mark.column + 1,
        found=lines[mark.line],
        message=message,
        corrected=corrected,
        fails=fails,
    )


def _number(node: yaml.Node) -> Any:
    if not isinstance(node, yaml.ScalarNode):
        return None
    try:
        value = yaml.safe_load(node.value)
    except yaml.YAMLError:
        return None
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _values(entries: list[Entry], launch: Launch, lines: list[str]) -> Iterator[Trap]:
    """Numbers that must be positive, in order, or divide each other."""
    named = {path.rsplit(".", 1)[-1]: (key, value) for path, key, value in entries}
    yield from _nodes(named, lines)
    for path, _, value in entries:
        name, number = path.rsplit(".", 1)[-1], _number(value)
        zero_is_off = name.startswith("memory_snapshot")
        if name.endswith("_interval") and number is not None and (number < 0 or (number == 0 and not zero_is_off)):
            line = lines[value.start_mark.line]
            fixed = line[: value.start_mark.column] + "500" if name == "checkpoint_interval" else ""
            yield _at("config-value", value, lines, f"{name} must be positive, found {number}", fixed)
    yield from _batch(named, launch, lines)


def _nodes(named: dict[str, tuple[yaml.Node, yaml.Node]], lines: list[str]) -> Iterator[Trap]:
    low = _number(named["min_nodes"][1]) if "min_nodes" in named else None
    high = _number(named["max_nodes"][1]) if "max_nodes" in named else None
    if low is not None and low < 1:
        yield _replaced(named["min_nodes"][1], lines, f"min_nodes must be at least 1, found {low}", "1")
    if low is not None and high is not None and high < low:
        words = f"max_nodes {high} is below min_nodes {low}"
        yield _replaced(named["max_nodes"][1], lines, words, str(low))


def _replaced(node: yaml.Node, lines: list[str], message: str, value: str) -> Trap:
    mark, end = node.start_mark, node.end_mark
    line = lines[mark.line]
    return _at("config-value", node, lines, message, line[: mark.column] + value + line[end.column :])


def _batch(named: dict[str, tuple[yaml.Node, yaml.Node]], launch: Launch, lines: list[str]) -> Iterator[Trap]:
    strategy = named.get("strategy")
    target = named.get("target_global_batch_size")
    if strategy is not None and getattr(strategy[1], "value", "") == "constant_batch" and target is None:
        line = lines[strategy[0].start_mark.line]
        fixed = (
            f"{line[: len(line) - len(line.lstrip())]}target_global_batch_size: N   # a line of its own beside strategy"
        )
        words = "constant_batch needs target_global_batch_size"
        yield _at("config-value", strategy[1], lines, words, fixed)
    yield from _divides(named, launch, lines)


TOTALS = ("target_global_batch_size", "global_batch_size", "train_batch_size")
PARTS = ("batch_size", "micro_batch_size", "per_device_train_batch_size", "train_micro_batch_size_per_gpu")


def _divides(named: dict[str, tuple[yaml.Node, yaml.Node]], launch: Launch, lines: list[str]) -> Iterator[Trap]:
    """The global batch against what all processes take at once. Split models have fewer replicas than processes: not judged."""
    total, size = (next((n for n in names if n in named), "") for names in (TOTALS, PARTS))
    split = any("parallel" in n and (_number(v) or 0) > 1 for n, (_, v) in named.items())
    whole, each = (_number(named[n][1]) if n else None for n in (total, size))
    if not whole or split or (size and not each):
        return
    for world in world_sizes(launch):
        step = (each or 1) * world
        if whole % step:
            words = f"{whole} is not a multiple of {f'{size} {each} x ' if size else ''}{world} processes"
            yield _replaced(named[total][1], lines, words, str(int(max(1, round(whole / step)) * step)))
            return


def world_sizes(launch: Launch) -> tuple[int, ...]:
    """Smallest and largest number of processes that the command line allows; () when it does not say."""
    parsed = parse_launch(list(launch.command), b"")
    if parsed is None:
        total = started_by(list(launch.command)).total if launch.command else None
        return (total,) if total else ()
    per = int(parsed.per_node) if parsed.per_node.isdecimal() else launch.gpus_per_node
    return tuple(dict.fromkeys((parsed.min_nodes * per, parsed.max_nodes * per))) if per else ()
