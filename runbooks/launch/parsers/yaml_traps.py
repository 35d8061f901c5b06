"""Finds places where a YAML file does not mean what it looks like, by the loader that will read it. Pure text work.

PyYAML follows YAML 1.1; OmegaConf uses PyYAML with its own rule for floats, without timestamps, and refuses duplicates.
"""

import re
from collections.abc import Iterator
from enum import StrEnum

import yaml

from runbooks.core.base import Frozen


class Loader(StrEnum):
    """Who reads the file."""

    PYYAML = "pyyaml"
    OMEGACONF = "omegaconf"


class Trap(Frozen):
    """One place. Lines and columns count from 1."""

    kind: str  # slug of the cause
    line: int
    column: int
    found: str  # the line as it stands
    message: str
    corrected: str  # the line as it was meant; "" when only its author can know
    fails: bool = True  # False: it loads as something that may be meant


SWALLOWED = "yaml-swallowed-key"
_EXPONENT = re.compile(r"[-+]?(\d[\d_]*)(\.\d*)?[eE]([-+]?)(\d+)\Z")
_SIXTY = re.compile(r"[-+]?\d[\d_]*(:[0-5]?\d)+(\.\d*)?\Z")
_WORDS = re.compile(r"(yes|no|on|off)\Z", re.IGNORECASE)
_OCTAL = re.compile(r"[-+]?0[0-7_]+\Z")
_DATE = re.compile(r"\d{4}-\d\d?-\d\d?\Z")
_SWALLOWED = re.compile(r"^(\s*)([A-Za-z_][\w.-]*):((?!//)[^\s:\\#].*)$")
_BLOCK = re.compile(r"(^|[\s:])[|>][-+0-9]*\s*(#.*)?$")


def find_traps(text: str, loader: Loader) -> tuple[Trap, ...]:
    """Every trap in `text`, in order of lines. A file that does not parse gives the trap that stops it, and more."""
    lines = text.splitlines()
    traps = [*_tabs(lines), *_swallowed(lines)]
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as e:
        traps = [_as_text(t, not _beside(t, e)) for t in traps]
        traps += _error(e, lines, traps)
    except yaml.YAMLError as e:
        traps.append(Trap(kind="yaml-broken", line=1, column=1, found="", message=str(e)[:200], corrected=""))
    else:
        plain = [node.value for node in _scalars(root, set())]
        meant = isinstance(root, yaml.MappingNode)  # where the whole file became one text, nothing else can be meant
        traps = [_as_text(t, meant) for t in traps if t.kind != SWALLOWED or _in(t.found, plain)]
        traps += [t for node in _scalars(root, set(), keys=True) if (t := _scalar(node, lines, loader))]
        traps += _duplicates(root, lines, loader, set())
    return tuple(sorted(traps, key=lambda t: (t.line, t.column)))


def _plain_lines(lines: list[str]) -> Iterator[tuple[int, str]]:
    """Lines outside block scalars, with their number from 0. Comments are left out."""
    inside = -1
    for i, line in enumerate(lines):
        indent = len(line) - len(line.lstrip(" \t"))
        if inside >= 0 and (not line.strip() or indent > inside):
            continue
        inside = indent if _BLOCK.search(line) and not line.lstrip().startswith("#") else -1
        if line.strip() and not line.lstrip().startswith("#"):
            yield i, line


def _tabs(lines: list[str]) -> Iterator[Trap]:
    for i, line in _plain_lines(lines):
        head = line[: len(line) - len(line.lstrip(" \t"))]
        if "\t" in head:
            fixed = head.replace("\t", "  ") + line[len(head) :]
            words = "a tab in the indentation; YAML allows spaces only"
            yield Trap(
                kind="yaml-tab", line=i + 1, column=head.index("\t") + 1, found=line, message=words, corrected=fixed
            )
            continue
        late = re.search(r"(?<=[^\s'\"])\t+(?=(#.*)?$)|\t+(?=#)", _outside_quotes(line))
        if late:
            fixed = (line[: late.start()] + "  " + line[late.end() :]).rstrip()
            words = "a tab between the value and what follows; PyYAML takes it for the start of a token"
            yield Trap(kind="yaml-tab", line=i + 1, column=late.start() + 1, found=line, message=words, corrected=fixed)


def _as_text(trap: Trap, meant: bool) -> Trap:
    """Where the file loads all the same, a word, a colon and no space may be a text that is meant: an image, a host and its port."""
    return trap.model_copy(update={"fails": False}) if meant and trap.kind == SWALLOWED else trap


def _beside(trap: Trap, e: yaml.MarkedYAMLError) -> bool:
    """Whether the parser stops at that line or right after it: what stands there is why."""
    mark = e.problem_mark or e.context_mark
    return trap.line in ((n := mark.line if mark else 0), n + 1, n + 2)


def _in(line: str, values: list[str]) -> bool:
    """Whether the line became (part of) a plain text value."""
    return any(re.sub(r"\s+#.*", "", line).strip() in value for value in values)


def _outside_quotes(line: str) -> str:
    """The line with quoted parts blanked out, at the same columns."""
    return re.sub(r"'[^']*'|\"(?:\\.|[^\"\\])*\"", lambda m: "x" * len(m.group()), line)


def _swallowed(lines: list[str]) -> Iterator[Trap]:
    for i, line in _plain_lines(lines):
        m = _SWALLOWED.match(line)
        if m and not m[2].startswith(("http", "https", "file", "s3", "gs", "tcp")):
            fixed = f"{m[1]}{m[2]}: {_value(m[3])}"
            words = f"no space after the colon: this is the text {line.strip()!r}, not the key {m[2]!r}"
            column = len(m[1]) + len(m[2]) + 2
            yield Trap(kind=SWALLOWED, line=i + 1, column=column, found=line, message=words, corrected=fixed)


def is_exponent(text: str) -> bool:
    """Whether it is a number with an exponent, and so no tag, port or name."""
    return _EXPONENT.match(text.strip()) is not None


def _value(text: str) -> str:
    m = _EXPONENT.match(text.strip())
    return _float(m) if m else text


def _float(m: re.Match[str]) -> str:
    """A form that every loader takes for a number: a dot, and a sign in the exponent."""
    sign = m.string.strip()[0] if m.string.strip()[0] in "+-" else ""
    return f"{sign}{m[1]}{m[2] if m[2] and m[2] != '.' else '.0'}e{m[3] or '+'}{m[4]}"


def _error(e: yaml.MarkedYAMLError, lines: list[str], known: list[Trap]) -> list[Trap]:
    """The place that stops the parser, unless it is explained already."""
    mark = e.problem_mark or e.context_mark
    number, column = (mark.line, mark.column) if mark else (0, 0)
    line = lines[number] if number < len(lines) else ""
    if any(t.fails and _beside(t, e) for t in known):
        return []
    problem = (e.problem or e.context or "not YAML").strip()
    quoted = _quote(line) if _needs_quotes(problem, line) else ""
    kind = "yaml-needs-quotes" if quoted else "yaml-broken"
    return [Trap(kind=kind, line=number + 1, column=column + 1, found=line, message=problem, corrected=quoted)]


def _needs_quotes(problem: str, line: str) -> bool:
    starts = re.match(r"^\s*(- )?[\w.-]+: +[%@`&*!\[{]", line)
    return ("mapping values are not allowed" in problem and line.count(": ") > 1) or bool(starts)


def _quote(line: str) -> str:
    m = re.match(r"^(\s*(?:- )?[\w.-]+: +)(.*?)(\s+#.*)?$", line)
    return f"{m[1]}{_quoted(m[2])}{m[3] or ''}" if m else ""


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _scalars(node: "yaml.Node | None", seen: set[int], keys: bool = False) -> Iterator[yaml.ScalarNode]:
    """Plain scalar values, and `keys` as well where they are asked for."""
    if node is None or id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, yaml.ScalarNode) and node.style is None:
        yield node
    children = [part for pair in node.value for part in pair[0 if keys else 1 :]] if isinstance(node, yaml.MappingNode) else []
    children += node.value if isinstance(node, yaml.SequenceNode) else []
    for child in children:
        yield from _scalars(child, seen, keys)


def _scalar(node: yaml.ScalarNode, lines: list[str], loader: Loader) -> Trap | None:
    """What is wrong with one plain value, by the loader."""
    text = node.value
    exponent = _EXPONENT.match(text)
    is_text = node.tag.endswith(":str")
    if exponent and is_text and loader is Loader.PYYAML:
        return _trap("yaml-exponent-text", node, lines, f"{text} is text for PyYAML, not a number", _float(exponent))
    if _SIXTY.match(text) and not is_text:
        number = yaml.safe_load(text)
        words = f"{text} is read in base 60: {number}"
        return _trap("yaml-base-60", node, lines, words, _quoted(text))
    if _WORDS.match(text) and node.tag.endswith(":bool"):
        words = f"{text} is read as {str(yaml.safe_load(text)).lower()}"
        return _trap("yaml-word-is-bool", node, lines, words, _quoted(text), fails=False)
    if _OCTAL.match(text) and node.tag.endswith(":int"):
        words = f"{text} is read in base 8: {yaml.safe_load(text)}"
        return _trap("yaml-base-8", node, lines, words, _quoted(text), fails=False)
    if _DATE.match(text) and loader is Loader.PYYAML and node.tag.endswith(":timestamp"):
        return _trap("yaml-date", node, lines, f"{text} becomes a date, not text", _quoted(text), fails=False)
    return None


def _trap(kind: str, node: yaml.ScalarNode, lines: list[str], message: str, value: str, fails: bool = True) -> Trap:
    start = node.start_mark
    line = lines[start.line]
    fixed = line[: start.column] + value + line[start.column + len(node.value) :]
    return Trap(
        kind=kind,
        line=start.line + 1,
        column=start.column + 1,
        found=line,
        message=message,
        corrected=fixed,
        fails=fails,
    )


def _duplicates(node: "yaml.Node | None", lines: list[str], loader: Loader, seen: set[int]) -> Iterator[Trap]:
    if node is None or id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, yaml.MappingNode):
        first: dict[str, int] = {}
        for key, value in node.value:
            name = str(key.value)
            if name in first and name != "<<":
                yield _twice(name, first[name], key, lines, loader)
            first.setdefault(name, key.start_mark.line + 1)
            yield from _duplicates(value, lines, loader, seen)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _duplicates(item, lines, loader, seen)


def _twice(name: str, first: int, key: yaml.Node, lines: list[str], loader: Loader) -> Trap:
    mark = key.start_mark
    what = "PyYAML silently keeps this one" if loader is Loader.PYYAML else "OmegaConf refuses the file"
    return Trap(
        kind="yaml-duplicate-key",
        line=mark.line + 1,
        column=mark.column + 1,
        found=lines[mark.line],
        message=f"{name!r} is given twice (first in line {first}); {what}",
        corrected=f"# {lines[mark.line].strip()}   # keep one of lines {first} and {mark.line + 1}",
    )
