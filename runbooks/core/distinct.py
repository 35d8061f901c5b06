"""Says each thing once: advice comes from several sources, and two of them often say the same in other words."""

import re
from collections.abc import Callable, Iterable, Sequence

FEW = 3  # names in a line
_LITTLE = frozenset("a an and as at by for from in into is it its of on still that the them this to when with".split())  # noqa: SIM905
_ENDINGS = ("ing", "ed", "es", "s", "e")
_REASON = re.compile(r"[:;,]\s|\s\(|\s[-–—]\s")
_PREFIX = re.compile(r"(?i)^\s*(?:do not|don't|never)\s+")


def names_of(names: Sequence[str], most: int = FEW) -> str:
    """The first `most` of them, and how many more there are; kept apart by semicolons where a name has a comma."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ("; " if any(", " in name for name in names[:most]) else ", ").join(names[:most]) + more


def capital(text: str) -> str:
    """As the beginning of a sentence."""
    return f"{text[:1].upper()}{text[1:]}"


def distinct(texts: Iterable[str]) -> tuple[str, ...]:
    """The texts in their order without those that say what another says; of two the one that says more stays.

    "df -h inside the pod" stands for "df inside"; "py-spy dump twice" for "py-spy dump".
    """
    return _each_once(texts, lambda text: text, within=True)


def prohibitions(texts: Iterable[str]) -> tuple[str, ...]:
    """What must not be done, each once, as a sentence ("Do not …"): one that is read alone must never read as advice.

    "never wipe etcd" and "wipe etcd" are one; so is the same with its reason behind a colon or in brackets.
    A narrower one ("reset a shared GPU") never takes the place of a wider one ("reset the GPU").
    """
    return _each_once(
        (f"Do not {_bare(text)}" for text in texts), lambda text: _REASON.split(text, maxsplit=1)[0], within=False
    )


def _bare(text: str) -> str:
    rest = _PREFIX.sub("", text)
    return rest[:1].lower() + rest[1:] if rest[1:2].islower() and rest.split(" ", 1)[0].isalpha() else rest


def _each_once(texts: Iterable[str], core: Callable[[str], str], *, within: bool) -> tuple[str, ...]:
    kept: list[tuple[frozenset[str], str]] = []
    for text in texts:
        words = _words(core(text))
        words = words if len(words) > 1 else _words(text)
        at = next((i for i, (old, _) in enumerate(kept) if _same(old, words, within)), None)
        if at is None:
            kept.append((words, text))
        elif len(text) > len(kept[at][1]):
            kept[at] = (words, text)
    return tuple(text for _, text in kept)


def _same(a: frozenset[str], b: frozenset[str], within: bool) -> bool:
    return a == b or (within and 1 < len(a & b) == min(len(a), len(b)))


def _words(text: str) -> frozenset[str]:
    plain = _PREFIX.sub("", text.lower()).replace("back-off", "backoff").replace("time-out", "timeout")
    return frozenset(stem(w) for w in re.findall(r"[\w*.+/=-]*[\w*/]", plain) if w not in _LITTLE)


def stem(word: str, endings: tuple[str, ...] = _ENDINGS, shortest: int = 3) -> str:
    """The word without its English ending, of which at least `shortest` letters stay: "failing", "failed" and "fails" are one."""
    for ending in endings:
        if word.endswith(ending) and len(word) - len(ending) >= shortest:
            word = word[: -len(ending)]
            break
    return word[:-1] if len(word) > 3 and word[-1] == word[-2] else word
