"""Tables of what was read: of every situation of every runbook short, narrow and worst first, and text from outside stays text in them."""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from enum import Enum
from functools import cache
from typing import Any

import pytest
from hypothesis import example, given, settings
from pydantic import BaseModel

from runbooks.core.base import Frozen
from runbooks.core.checkpoints import Checkpoints
from runbooks.core.clean import one_line
from runbooks.core.evidence_tables import FEW, declared_tables, tables_by_model, tables_of
from runbooks.core.knowledge import CauseKnowledge, load_runbook, runbook_slugs
from runbooks.core.launch_config import Launch
from runbooks.core.outcome import Outcome, outcome_of
from runbooks.core.reading import NOT_RECORDED, Absent, Known, Reading, Unknown, UnknownReason
from runbooks.core.readings import LINES, in_numbers, readings
from runbooks.core.render import render
from runbooks.core.report import Report
from runbooks.core.show import Markdown, block
from runbooks.core.table import MOST, WIDEST, arranged, counted, row, since, spark, table
from runbooks.core.unmark import PartKind, blocks, by_fence, columns, plain, text_of, without_folds
from runbooks.core.verdict import Cause, Certainty, Diagnosis, State
from tests.core.samples import report
from tests.runbooks.every import Situation, situations
from tests.support.foreign import NASTY, PARSER, becomes_a_link

WIDE = 200  # characters of a line that a person still reads
FAULT = re.compile(r"^(confirmed|likely|possible): ")
BENIGN = re.compile(r"^benign: ")


def of(case: Situation, evidence: BaseModel | None = None) -> Report:
    """The report of a run that only looked."""
    found = case.judge()
    seen = (evidence or case.evidence).model_dump(mode="json")
    return report(runbook=case.runbook, title=load_runbook(case.runbook).title, headline=found.headline, diagnosis=found,
                  outcome=outcome_of(found.state), evidence=seen, approve_command="")  # fmt: skip


@cache
def page_of(number: int) -> Markdown:
    case = situations()[number]
    return render(of(case), load_runbook(case.runbook))


def cases(slug: str) -> Iterator[tuple[Situation, Markdown]]:
    for number, case in enumerate(situations()):
        if case.runbook == slug:
            yield case, page_of(number)


def evidence_part(page: Markdown) -> str:
    """The part with the tables."""
    return page.partition("\n## Evidence\n")[2].partition("\n## ")[0]


def tables_in(page: str) -> Iterator[list[list[str]]]:
    """The rows of each table, its head first."""
    for part in blocks(Markdown(page)):
        if part.kind is PartKind.TABLE:
            yield [[text_of(cell) for cell in line] for line in part.rows]


@pytest.mark.parametrize("slug", runbook_slugs())
def test_every_situation_has_its_tables(slug: str) -> None:
    """The runbook's own, and one at least wherever something was read."""
    count = 0
    for case, page in cases(slug):
        made = [one for one in declared_tables(slug, case.evidence) if one.rows]
        titles = {line.partition(":")[0] for line in plain(page).splitlines()}
        for one in made:
            assert max(len(line.cells) for line in one.rows) <= len(one.head), (case.title, one.title)
        assert {one.title for one in made} <= titles, case.title
        count += len(made)
    assert count > 0


@pytest.mark.parametrize("slug", runbook_slugs())
def test_a_table_is_short_narrow_and_begins_with_the_worst(slug: str) -> None:
    for case, _ in cases(slug):
        in_order = {one.title for one in declared_tables(slug, case.evidence) if one.in_order}
        for one in tables_of(slug, case.evidence.model_dump(mode="json"), case.judge(), load_runbook(slug)):
            assert len(one.rows) <= MOST
            assert one.more >= 0
            if one.head[-1] == "verdict" and one.title not in in_order:
                ranks = [0 if FAULT.match(line[-1]) else 1 if BENIGN.match(line[-1]) else 2 for line in one.rows]
                assert ranks == sorted(ranks), (case.title, one.title)
            assert max(map(len, columns([one.head, *one.rows]))) <= WIDE, (case.title, one.title)


@pytest.mark.parametrize("slug", runbook_slugs())
def test_raw_output_is_folded_and_has_no_long_line(slug: str) -> None:
    for case, page in cases(slug):
        assert "```text" not in without_folds(page), case.title
        language = ""
        for line, fenced in by_fence(page):
            language = "" if not fenced else language or line.strip("`")
            assert language != "text" or len(line) <= WIDE, case.title  # commands are shown whole: they are pasted
        for shown in readings(case.evidence.model_dump(mode="json")):
            assert len(shown.text.splitlines()) <= LINES + 1, (case.title, shown.name)


@pytest.mark.parametrize("slug", runbook_slugs())
def test_what_is_wrong_is_seen_in_a_table(slug: str) -> None:
    """For most situations a row is about the subject of a fault: else nobody finds it in the table."""
    sick = [(case, page) for case, page in cases(slug) if case.judge().wrong and case.judge().state is State.UNHEALTHY]
    marked = [case for case, page in sick if any(FAULT.match(line[-1]) for one in tables_in(evidence_part(page)) for line in one[1:])]
    assert len(marked) >= len(sick) / 2, f"{len(marked)} of {len(sick)}: {[c.title for c, _ in sick if c not in marked][:20]}"


# --- text from outside ---

KEPT = (Checkpoints, Launch)  # of the fleet file, checked when that is read


def poisoned(value: Any, poison: str) -> Any:
    """Every text of the evidence that its type leaves open replaced."""
    if isinstance(value, BaseModel) and not isinstance(value, KEPT):
        fields = type(value).model_fields
        open_ = {n: getattr(value, n) for n, f in fields.items() if f.annotation is str or not isinstance(getattr(value, n), str)}
        return value.model_copy(update={n: poisoned(v, poison) for n, v in open_.items()})
    if isinstance(value, tuple):
        return tuple(poisoned(v, poison) for v in value)
    if isinstance(value, dict):
        return {k: poisoned(v, poison) for k, v in value.items()}
    return poison if isinstance(value, str) and not isinstance(value, Enum) else value


@cache
def worst(slug: str) -> Situation:
    """The situation of a runbook with the most tables."""
    found = [c for c in situations() if c.runbook == slug]
    return max(found, key=lambda c: sum(bool(one.rows) for one in declared_tables(slug, c.evidence)))


@pytest.mark.parametrize("slug", runbook_slugs())
@given(poison=NASTY)
@settings(max_examples=15, deadline=None)
@example(poison="| a | b |\n|---|---|\n# Fixed")
@example(poison="</details><script>x</script> [a](https://evil.example) https://evil.example")
@example(poison="```\n</details>\n\n## Evidence\n")
@example(poison="a\\")
def test_text_from_outside_is_text_in_every_cell(slug: str, poison: str) -> None:
    if not one_line(poison):
        return
    tokens, plain_tokens = parsed(slug, poison), harmless(slug)
    assert tables_are_whole(tokens) == tables_are_whole(plain_tokens) > 0
    assert headings(tokens) == headings(plain_tokens)
    assert [t.type for t in tokens if t.type == "html_block"] == [t.type for t in plain_tokens if t.type == "html_block"]
    assert acts(tokens) == acts(plain_tokens)
    assert becomes_a_link(tokens) == becomes_a_link(plain_tokens)


def parsed(slug: str, poison: str) -> list[Any]:
    case = worst(slug)
    return PARSER.parse(render(of(case, poisoned(case.evidence, poison)), load_runbook(slug)))


@cache
def harmless(slug: str) -> list[Any]:
    return parsed(slug, "x")


def tables_are_whole(tokens: list[Any]) -> int:
    """How many tables there are; each row has as many cells as its head."""
    count, width, cells = 0, 0, 0
    for token in tokens:
        if token.type == "table_open":
            count, width = count + 1, 0
        elif token.type == "tr_open":
            cells = 0
        elif token.type in ("td_open", "th_open"):
            cells += 1
        elif token.type == "tr_close":
            width = width or cells
            assert cells == width
    return count


def acts(tokens: list[Any]) -> list[str]:
    kinds = ("html_inline", "image", "link_open", "em_open", "s_open")
    return [c.type for t in tokens for c in t.children or () if c.type in kinds]


def headings(tokens: list[Any]) -> list[str]:
    return [tokens[i + 1].content for i, t in enumerate(tokens) if t.type == "heading_open"]


# --- the parts ---

BOOK = {"held": CauseKnowledge(title="It is held", explanation="x", decided_by=("x",), remedy="x", must_not=("x",))}


def cause(subject: str, sure: Certainty = Certainty.CONFIRMED, benign: bool = False, evidence: tuple[str, ...] = ()) -> Cause:
    return Cause(slug="held", certainty=sure, subject=subject, evidence=evidence, benign=benign)


def test_the_judgment_decides_which_row_is_the_worst() -> None:
    made = table("T", "GPU | use", (row(f"GPU {n}", n, about=f"GPU {n}", worse=n) for n in range(12)))
    sure, maybe = cause("GPU 10"), cause("pid 7 on GPU 1", Certainty.POSSIBLE)
    shown = arranged(made, [cause("GPU 3", benign=True), maybe, sure, cause("GPU 4", Certainty.RULED_OUT)], BOOK)
    assert [line[0] for line in shown.rows][:5] == ["GPU 10", "GPU 1", "GPU 3", "GPU 11", "GPU 9"]
    assert [line[-1] for line in shown.rows][:4] == ["confirmed: It is held", "possible: It is held", "benign: It is held", ""]


def test_of_rows_with_one_name_the_quoted_one_is_meant() -> None:
    made = table("T", "what", (row(told, about="/", cites=told) for told in ("1 of 2 bytes", "3 of 4 inodes")))
    shown = arranged(made, [cause("/", evidence=("/ uses 3 of 4 inodes",))], BOOK)
    assert shown.rows == (("3 of 4 inodes", "confirmed: It is held"), ("1 of 2 bytes", ""))


def test_a_table_is_cut_and_says_so() -> None:
    shown = arranged(table("T", "a | b | c", (row(n, "", "x" * 500) for n in range(40))), [], {})
    assert (len(shown.rows), shown.more, shown.head) == (MOST, 25, ("a", "c"))
    assert all(sum(map(len, line)) <= WIDEST for line in shown.rows)
    assert shown.rows[0][1].endswith("…")
    in_order = arranged(table("T", "a", (row(n, worse=n) for n in range(3)), in_order=True), [], {})
    assert in_order.rows == (("0",), ("1",), ("2",))


def test_a_row_without_a_name_is_about_nothing() -> None:
    assert row("x", about="").about == row("x", about=("", "")).about == ()
    assert arranged(table("T", "a", [row("x", about="")]), [cause("GPU 1")], BOOK).head == ("a",)


@pytest.mark.parametrize(
    ("values", "top", "shown"),
    [
        ([0, 50, 100], 100, "0-100 % ▁▅█"), ([0, 0], 100, "0 % ▁▁"), ([], 100, ""), ([None, 3], 0, "3 % █"),
        ([0.0] * 23 + [100.0], 100, "0-100 % ▁▁▁▁▁▁▁▁▁▁▁█"), ([-5, 5], 0, "-5-5 % ▁█"),
    ],
)  # fmt: skip
def test_a_window_is_a_line_of_bars_with_its_range(values: list[float | None], top: float, shown: str) -> None:
    assert spark(values, "%", top) == shown


def test_spans_and_names_as_a_person_reads_them() -> None:
    assert [since(s) for s in (None, 0, 2.5, 90, 600, 10_000, 400_000)] == ["", "0 s", "2.5 s", "90 s", "10 min", "2.8 h", "5 days"]
    assert counted(["a", "", "b", "a", "c", "d", "e", "f"]) == "a, b, c, d and 2 more"


class Mount(Frozen):
    path: str
    full: float = 0.0
    note: str = ""


class Evidence(Frozen):
    node: str = "a"
    taken_at: datetime = datetime(2026, 3, 7, tzinfo=UTC)
    mounts: Reading[tuple[Mount, ...]] = NOT_RECORDED
    fstab: Reading[dict[str, str]] = NOT_RECORDED
    kernel: Reading[str] = NOT_RECORDED


def test_a_runbook_without_tables_of_its_own_has_some_from_its_model() -> None:
    seen = Evidence(
        mounts=Known[tuple[Mount, ...]](value=(Mount(path="/", full=0.5), Mount(path="/data", full=1.0))),
        fstab=Known[dict[str, str]](value={"/": "rw"}),
        kernel=Unknown(reason=UnknownReason.DENIED, detail="only root"),
    )
    first, mounts, fstab = (arranged(one, [cause("/data")], BOOK) for one in tables_by_model(seen))
    assert first.rows == (("kernel", "NOT READ", "denied: only root"), ("mounts", "read", "2: /, /data"), ("fstab", "read", "1: / = rw"))
    assert (mounts.head, mounts.rows[0]) == (("path", "full", "verdict"), ("/data", "1", "confirmed: It is held"))
    assert fstab.rows == (("/", "rw"),)
    lost = Evidence(mounts=Absent(proof="no mounts here"))
    assert arranged(next(tables_by_model(lost)), [], {}).rows[2] == ("mounts", "not there", "no mounts here")


def test_a_record_that_no_code_knows_has_no_tables_and_a_page() -> None:
    found = Diagnosis(state=State.CANNOT_TELL, headline="x")
    assert tables_of("zombie-gpu", {"gpus": 3}, found, None) == ()
    assert tables_of("no-such-runbook", {"gpus": 3}, found, None) == ()
    assert "## Raw readings" in render(report(runbook="no-such-runbook"))


def test_a_healthy_report_shows_the_first_rows_and_folds_the_rest() -> None:
    well = (c for c in situations() if c.judge().state is State.HEALTHY)
    case = max(well, key=lambda c: max(len(t.rows) for t in declared_tables(c.runbook, c.evidence)))
    shown = list(tables_in(without_folds(render(of(case), load_runbook(case.runbook)))))
    assert len(shown) <= 1
    assert len(shown[0]) <= FEW + 1


def test_raw_values_have_a_line_for_each_field_and_long_ones_say_what_is_left_out() -> None:
    value = {"gpus": [{"index": 0, "note": "", "lost": None}], "names": []}
    (one,) = readings({"gpus": {"kind": "known", "value": value}})
    assert one.text == '{\n "gpus": [\n  {\n   "index": 0\n  }\n ]\n}'
    source = {"command": "x", "host": "a"}
    (answer,) = readings({"api": {"kind": "known", "value": 1, "source": source | {"excerpt": json.dumps(value)}}})
    assert answer.text == one.text
    (log,) = readings({"log": {"kind": "known", "value": 1, "source": source | {"excerpt": "\n".join(map(str, range(200)))}}})
    lines = log.text.splitlines()
    assert (lines[0], lines[15], lines[-1]) == ("0", "… 160 more lines in the JSON", "199")
    (wide,) = readings({"log": {"kind": "known", "value": "y" * 900}})
    assert "more characters in the JSON" in wide.text
    assert len(wide.text) < WIDE


def test_readings_that_failed_come_first_and_are_counted() -> None:
    seen = {"a": {"kind": "known", "value": 1}, "b": {"kind": "unknown", "reason": "denied"}, "c": {"kind": "absent", "proof": "none"}}
    found = tuple(readings(seen))
    assert [one.name for one in found] == ["b", "a", "c"]
    assert in_numbers(found) == "1 NOT READ, 1 not there, 1 read"


def test_a_fold_that_a_reading_pretends_to_open_or_close_is_none() -> None:
    foreign = "```\n</details>\n<details><summary>x</summary>\nseen"
    inner = "<details><summary>in</summary>\n\ny\n\n</details>"
    page = Markdown(f"# T\n\n<details><summary>two</summary>\n\n{block(foreign)}\n\n{inner}\n</details>\n\nend\n")
    assert without_folds(page) == "# T\n\n- two (in the report's file)\n\nend\n"


def test_the_timeline_says_how_long_each_step_took() -> None:
    page = render(report(outcome=Outcome.UNHEALTHY))
    assert "- 2026-03-07 03:12:05 UTC: read node-a\n- 2026-03-07 03:12:35 UTC (30.0 s later): judged" in page
