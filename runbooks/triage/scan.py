"""Finds the lines on which patterns match, in one pass over blocks of text, in bounded memory.

Most log lines are alike but for their numbers. Lines are folded (lower case, digits out) and each new folded line is
searched once for the texts that the patterns cannot do without; regular expressions run only on lines that hold one.
Of every pattern the first and the last matches are kept.
"""

from collections import deque
from collections.abc import Iterable
from functools import lru_cache

from runbooks.triage.block import Block
from runbooks.triage.literals import fold
from runbooks.triage.plain import plain
from runbooks.triage.probe import ALWAYS, ENOUGH, KEEP, Probe, Raw
from runbooks.triage.vocabulary import Vocabulary, stand

REMEMBER = 48 << 20  # bytes of folded lines remembered as uninteresting
SAMPLE = 1 << 16  # bytes in which texts are counted, to search for the rarest
LATE = 500  # last lines of a block on which patterns are tried that have matched often enough before
HOPELESS = 4000  # failed tries after which a pattern that is only context is given up

Wanted = tuple[Probe, tuple[bytes, ...]]  # a probe, and what else has to stand in its line


@lru_cache(maxsize=64)  # as many as narrow.py keeps
def _vocabulary(words: frozenset[bytes]) -> Vocabulary:
    """One for each set of patterns, not for each text."""
    return Vocabulary(words)


class Scanner:
    """Feeds blocks to probes. One per text; probes keep the result."""

    def __init__(self, probes: Iterable[Probe]) -> None:
        self.probes = tuple(probes)
        self.lines = 0
        self._boring: set[bytes] = set()
        self._bored = 0
        self._interesting: dict[bytes, Kind] = {}
        self._always = tuple(p for p in self.probes if not p.options)
        self._often: dict[bytes, int] = {}
        self._vocabulary = _vocabulary(frozenset(w for p in self.probes for part in p.words for w in part))

    def feed(self, block: Block) -> None:
        """Look through one block of whole lines."""
        raw = plain(block.data)
        folded = fold(raw).split(b"\n")
        fresh = {t for t in set(folded) if t not in self._boring and t not in self._interesting}
        if fresh:
            self._learn(fresh)
        known = self._interesting
        picked = [i for i, t in enumerate(folded) if t in known]
        if picked:
            self._try(block.model_copy(update={"data": raw}), raw.split(b"\n"), folded, picked)
        self.lines += len(folded)

    def finish(self) -> None:
        """After the last block."""
        for probe in self.probes:
            probe.finish()

    def _learn(self, fresh: set[bytes]) -> None:
        lines = sorted(fresh)
        blob = b"\n".join(lines)
        matched = _candidates(lines, blob, self._likely(blob))
        for at, line in enumerate(lines):
            tried = (*dict.fromkeys(matched.get(at, ())), *self._always)
            if tried:
                self._interesting[line] = Kind(tried)
            else:
                self._forgo(line)
        self._forget()

    def _forgo(self, line: bytes) -> None:
        self._boring.add(line)
        self._bored += len(line)

    def _likely(self, blob: bytes) -> dict[bytes, list[Wanted]]:
        """The rarest text of each option that may stand somewhere, with its probes and what else they need in the line."""
        present = self._vocabulary.present(blob)
        found: dict[bytes, list[Wanted]] = {}
        for probe in self.probes:
            if probe.context and (probe.count >= ENOUGH or probe.failed >= HOPELESS):
                continue
            for texts, words in zip(probe.options, probe.words, strict=True):
                if present.issuperset(words):
                    rarest = self._rarest(texts, blob)
                    found.setdefault(rarest, []).append((probe, tuple(t for t in texts if t != rarest)))
        return found

    def _rarest(self, texts: tuple[bytes, ...], blob: bytes) -> bytes:
        """By a sample of the text in which they first stood."""
        for text in texts:
            if text not in self._often:
                self._often[text] = blob.count(text, 0, SAMPLE)
        return min(texts, key=lambda t: (self._often[t], -len(t)))

    def _forget(self) -> None:
        if self._bored > REMEMBER:
            self._boring.clear()
            self._bored = 0
        if len(self._interesting) > 100_000:
            self._interesting.clear()

    def _try(self, block: Block, raw: list[bytes], folded: list[bytes], picked: list[int]) -> None:
        counted: dict[bytes, None] = {}
        whole = block.data.lower()
        here: dict[Probe, bool] = {}  # probes whose digits stand in this block at all
        late = picked[-min(len(picked), LATE)]
        for i in picked:
            kind = self._interesting.get(folded[i])
            if kind is None:
                continue
            if kind.full:
                kind.seen += 1
                kind.tail.append(i)
                counted[folded[i]] = None
            if kind.active and raw[i] != kind.vain:
                wanted = [p for p in kind.active if p.patience < ALWAYS or _in(p, whole, here)]
                if i < late:
                    wanted = self._put_off(wanted, block, raw, i)
                if wanted:
                    self._look(folded[i], self._raw(block, raw, i), wanted, kind)
        for text in counted:
            kind = self._interesting[text]
            kind.count([self._raw(block, raw, i) for i in kind.tail])

    def _put_off(self, wanted: list[Probe], block: Block, raw: list[bytes], i: int) -> list[Probe]:
        """Those that have not matched often enough; for the others the line is kept, to be tried if it is a last one."""
        for probe in wanted:
            if probe.count >= ENOUGH and not probe.context:
                probe.pending.append(self._raw(block, raw, i))
        return [p for p in wanted if p.count < ENOUGH]

    def _raw(self, block: Block, raw: list[bytes], i: int) -> "Raw":
        return Raw(block.file, block.first + i, self.lines + i, raw[i], raw[i - 1] if i else b"")

    def _look(self, folded: bytes, line: "Raw", wanted: list[Probe], kind: "Kind") -> None:
        """Try the probes of a folded line; those that keep failing on its kind are given up."""
        lowered, vain = line.data.lower(), True
        for probe in wanted:
            if not probe.may_match(line.data, lowered) or not probe.look(line):
                kind.active[probe] += 1
                if kind.active[probe] >= probe.patience:
                    del kind.active[probe]
                continue
            vain = False
            if probe.count >= ENOUGH:
                del kind.active[probe]
                if not probe.context:
                    kind.full.append(probe)
        kind.vain = line.data if vain and not line.after_frame else kind.vain
        if not kind.active and not kind.full:
            del self._interesting[folded]
            self._forgo(folded)


class Kind:
    """Lines that differ in digits only: what is still tried on them, and what matched often enough to be counted."""

    __slots__ = ("active", "full", "seen", "tail", "vain")

    def __init__(self, probes: Iterable[Probe]) -> None:
        self.active: dict[Probe, int] = dict.fromkeys(probes, 0)  # and how often each failed
        self.full: list[Probe] = []
        self.seen = 0
        self.tail: deque[int] = deque(maxlen=KEEP)
        self.vain = b""  # a line of the kind on which every pattern failed: the same line again will not do better

    def count(self, last: list["Raw"]) -> None:
        """At the end of a block: the lines seen, and the last of them to look at later."""
        for probe in self.full:
            probe.count += self.seen
            probe.pending.extend(last)
        self.seen = 0
        self.tail.clear()


def _in(probe: Probe, whole: bytes, here: dict[Probe, bool]) -> bool:
    if probe not in here:
        here[probe] = probe.digits_in(whole)
    return here[probe]


def _candidates(lines: list[bytes], blob: bytes, likely: dict[bytes, list[Wanted]]) -> dict[int, list[Probe]]:
    """For each line (by position) the probes whose texts all stand in it. One pass for all texts."""
    found: dict[int, list[Probe]] = {}
    at, end, line = -1, -1, b""
    for last, wanted in stand(likely, blob):
        while last > end:
            at += 1
            line = lines[at]
            end += len(line) + 1
        for probe, others in wanted:
            for other in others:
                if other not in line:
                    break
            else:
                found.setdefault(at, []).append(probe)
    return found
