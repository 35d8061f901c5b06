"""In a long text conditions count around the match: what stands far away neither suppresses a fault nor grants one."""

import io
from collections.abc import Iterator
from typing import Any

from runbooks.core.knowledge import Signature
from runbooks.triage.block import Block
from runbooks.triage.judge import judge
from runbooks.triage.literals import required
from runbooks.triage.load import FactKnowledge, Family, Rule, RuleSet, patterns_of
from runbooks.triage.model import TriageResult
from runbooks.triage.sources import stream_blocks

FAR = 3000  # lines
WORK = "[rank{r}]: step {n} loss 2.0"
SPEED = FactKnowledge(kind="number", about="speed", patterns=("speed (?P<v>\\d+)",))


def work(count: int, every: str = WORK) -> str:
    """Lines of a run that does what it should."""
    return "\n".join(every.format(n=n, r=n % 8) for n in range(count))


def knowledge(**signature: Any) -> RuleSet:
    """One cause with one signature: "broken", and what else is given."""
    given = Signature.model_validate({"pattern": "broken", "role": "root", "example": "broken"} | signature)
    words = {"title": "t", "explanation": "e", "decided_by": ["d"], "remedy": "r"}
    family = Family.model_validate({"family": "f", "title": "t", "causes": {"c": {**words, "signatures": [given]}}})
    causes = tuple(Rule(slug=s, family="f", cause=c) for s, c in family.causes.items())
    facts = {"speed": SPEED}
    literals = {
        p: tuple(t.decode() for t in required(p)) for p in [*patterns_of(causes, facts), "(?P<what>\\w+) arrived"]
    }
    return RuleSet(causes=causes, facts=facts, codes={}, failure=(), literals=literals)


def stands(text: str | dict[str, str], facts: dict[str, str] | None = None, **signature: Any) -> list[int]:
    """Lines on which the signature stands."""
    files = {"x": text} if isinstance(text, str) else text
    outcome = judge(_blocks(files), facts, lib=knowledge(**signature))
    return [line.number for c in outcome.causes for line in c.evidence]


def _blocks(files: dict[str, str]) -> Iterator[Block]:
    for name, text in files.items():
        lines = text.split("\n")
        for at in range(0, len(lines), 700):
            yield Block(file=name, first=at + 1, data="\n".join(lines[at : at + 700]).encode())


def real(text: str) -> TriageResult:
    """By all that is known."""
    return judge(stream_blocks(io.BytesIO(text.encode()), "run.log"))


def test_half_a_million_lines_away_nothing_is_suppressed_and_nothing_granted() -> None:
    between = work(500_000)
    far = "ls: cannot access /mnt/s3: Transport endpoint is not connected\nloading checkpoint last.pt with torch\n"
    outcome = real(f"{far}{between}\nthe s3fs mount hangs\nEOFError\n{work(20)}")
    found = [c.slug for c in outcome.causes]
    assert "fuse-hung" in found  # the mount that was gone another day does not take it away
    assert "truncated" not in found  # nor makes the word of another day this EOFError a broken checkpoint
    near = real(f"{work(20)}\nthe s3fs mount hangs\nls: Transport endpoint is not connected\n{work(2000)}")
    assert "fuse-hung" not in [c.slug for c in near.causes]
    near = real(f"{work(2000)}\nloading checkpoint last.pt with torch\nEOFError\n{work(2000)}")
    assert "truncated" in [c.slug for c in near.causes]


def test_a_short_text_is_about_one_thing() -> None:
    assert stands(f"fine\n{work(390)}\nbroken", unless=["fine"]) == []
    assert stands(f"needed\n{work(390)}\nbroken", needs=["needed"]) == [392]


def test_near_is_so_many_lines_for_each_one_who_speaks() -> None:
    one = work(FAR, "step {n} of one process")
    assert stands(f"{one}\nfine\n{work(300, 'step {n}')}\nbroken\n{one}", unless=["fine"]) != []
    assert stands(f"{one}\nfine\n{work(150, 'step {n}')}\nbroken\n{one}", unless=["fine"]) == []
    assert stands(f"{one}\nfine\n{work(800)}\nbroken\n{work(FAR)}", unless=["fine"]) == []  # eight ranks
    assert stands(f"{one}\nfine\n{work(1900)}\nbroken\n{work(FAR)}", unless=["fine"]) != []


def test_what_is_said_at_the_same_moment_is_near_and_what_is_hours_away_is_not() -> None:
    fast, slow = "2026-01-05 10:00:{m:02d} step {n}", "2026-01-05 {h:02d}:00:00 step {n}"
    busy = "\n".join(fast.format(n=n, m=n // 60) for n in range(1500))
    assert stands(f"2026-01-05 10:00:00 fine\n{busy}\n2026-01-05 10:00:25 broken", unless=["fine"]) == []
    quiet = "\n".join(slow.format(n=n, h=n // 30) for n in range(600))
    assert stands(f"{quiet}\n2026-01-05 20:00:00 fine\n2026-01-06 08:00:00 broken", unless=["fine"]) != []
    assert stands(f"{quiet}\n2026-01-06 07:00:00 fine\n2026-01-06 08:00:00 broken", unless=["fine"]) == []


def test_a_match_in_the_middle_is_judged_where_what_it_needs_stands() -> None:
    often = "\n".join("broken" if n % 3 == 0 else f"step {n}" for n in range(30_000))
    text = f"{often}\nneeded\nbroken here\n{often}"
    assert 30_002 in stands(text, needs=["needed"])
    assert all(abs(n - 30_001) < 20 for n in stands(text, needs=["needed"]))


def test_anywhere_is_said_in_the_signature() -> None:
    assert stands(f"fine\n{work(FAR)}\nbroken", unless=["fine"], reach="anywhere") == []
    assert stands(f"needed\n{work(FAR)}\nbroken", needs=["needed"], reach="anywhere") == [FAR + 2]


def test_numbers_of_another_run_do_not_count_but_given_ones_do() -> None:
    text = f"speed 7\n{work(FAR)}\nbroken\n{work(FAR)}"
    assert stands(text, where=["speed > 5"]) == []
    assert stands(text, {"speed": "9"}, where=["speed > 5"]) == [FAR + 2]
    assert stands(f"{text}\nbroken at speed 8\n{work(FAR)}", where=["speed > 5"]) == [2 * FAR + 3]
    assert stands(text, pattern="", where=["speed > 5"]) == [1]


def test_a_success_counts_for_the_same_thing_and_after_it() -> None:
    rule: dict[str, Any] = {
        "pattern": "(?P<what>\\w+) broken",
        "example": "a broken",
        "recovered": ["(?P<what>\\w+) arrived"],
    }
    for rest in ("", f"\n{work(FAR)}"):
        assert stands(f"a broken\na arrived{rest}", **rule) == []
        assert stands(f"a broken\nb arrived{rest}", **rule) == [1]
        assert stands(f"a arrived\na broken{rest}", **rule) == [2]


def test_a_small_file_of_a_bundle_speaks_for_all_of_it_a_long_one_for_its_own_lines() -> None:
    log = f"{work(FAR)}\nbroken\n{work(FAR)}"
    assert stands({"log": log, "state.txt": "fine"}, unless=["fine"]) == []
    assert stands({"log": log, "other.log": f"fine\n{work(FAR)}"}, unless=["fine"]) == [FAR + 1]
    assert stands({"state.txt": "needed", "log": log}, needs=["needed"]) == [FAR + 1]
    assert stands({"log": log, "other.log": f"needed\n{work(FAR)}"}, needs=["needed"]) == []
    assert stands({"log": log, "facts.txt": "speed 8"}, where=["speed > 5"]) == [FAR + 1]
