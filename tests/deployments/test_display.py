"""At a terminal reports are laid out and coloured; on a pipe they are plain; nothing that was read is markup or a code."""

import io
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from deployments.cli import display
from deployments.cli.terminal import cleaned
from runbooks.core.form import approval_text
from runbooks.core.knowledge import load_runbook
from runbooks.core.outcome import Outcome
from runbooks.core.render import render
from runbooks.core.show import Markdown, block, commands_block, joined, md
from runbooks.core.unmark import plain
from tests.core.samples import report
from tests.deployments.test_terminal import CODES, obeyed
from tests.runbooks.every import situations
from tests.support.cli import COLOUR, at_terminal
from tests.support.foreign import NASTY

MARKUP = "[bold red]x[/bold red] [link=https://evil.example]y[/link] :skull: \\[z]"
WIDTHS = (60, 80, 120, 200)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def at_a_terminal(show: Callable[[], None], width: int = 80, env: dict[str, str] | None = None) -> str:
    """What `show` writes to a terminal so wide, through the stream of every command."""
    stream, kept = Terminal(), sys.stdout
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("NO_COLOR", raising=False)
        for name, value in {"TERM": "xterm-256color", "COLUMNS": str(width), **(env or {})}.items():
            patch.setenv(name, value)
        sys.stdout = stream
        try:
            with cleaned():
                show()
        finally:
            sys.stdout = kept
    return stream.getvalue()


def words_of(shown: str) -> str:
    return COLOUR.sub("", shown)


@given(text=st.one_of(NASTY, st.just(CODES), st.just(MARKUP)))
@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_a_terminal_obeys_nothing_that_was_read(text: str) -> None:
    found = report(target=text, headline=text, title=text)
    seen = found.diagnosis.model_copy(update={"do_now": (text,), "symptom": text, "must_not": (text,), "by_hand": (text,)})
    page = render(found.model_copy(update={"diagnosis": seen}), load_runbook("zombie-gpu"))

    def show() -> None:
        display.show_page(page, Outcome.UNHEALTHY)
        display.show_outcome(Outcome.UNHEALTHY, text, text)
        display.show_table([("HEAD", "WHAT"), (text, text)], coloured=0)
        display.show_lines([f"  {text}"])

    shown = at_a_terminal(show)
    assert obeyed(words_of(shown)) == []
    assert COLOUR.search(shown)


def test_markup_of_rich_is_shown_as_it_was_read() -> None:
    shown = words_of(at_a_terminal(lambda: display.show_page(joined("\n\n", [md(MARKUP), block(MARKUP)])), 200))
    assert shown == f"{MARKUP}\n\n    {MARKUP}\n"


@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_who_wants_no_colours_gets_the_plain_text_of_a_pipe(env: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    page = render(report(), load_runbook("zombie-gpu"))
    display.show_page(page)
    assert at_a_terminal(lambda: display.show_page(page), env=env) == capsys.readouterr().out == plain(page)


def test_plain_text_has_no_sign_of_markdown() -> None:
    shown = plain(render(report(headline="a_b <c> | d"), load_runbook("zombie-gpu")))
    assert "a_b <c> | d" in shown
    assert [s for s in ("\\_", "\\|", "&lt;", "<details>", "**", "```", "|---", "\n#", "\n|") if s in shown] == []


@pytest.fixture(scope="module")
def asked() -> list[tuple[tuple[str, ...], Markdown]]:
    """Commands and question of the situations of every runbook that have a plan; some of each."""
    found = [(case, case.judge()) for case in list(situations())[::6]]
    plans = [(case, d) for case, d in found if d.plans]
    commands = [tuple(c for plan in d.plans for step in plan.steps for c in step.commands) for _, d in plans]
    return list(zip(commands, (approval_text(case.runbook, "n", d, d.plans, (), width=0) for case, d in plans), strict=True))


@pytest.mark.parametrize("width", [60, 200])
def test_commands_are_whole_lines_at_every_width(width: int, asked: list[tuple[tuple[str, ...], Markdown]]) -> None:
    assert len(asked) > 8
    for commands, page in asked:
        lines = {line.strip() for line in words_of(at_a_terminal(lambda page=page: display.show_page(page), width)).split("\n")}  # type: ignore[misc]
        for command in commands:
            parts = commands_block([command]).splitlines()[1:-1]
            assert [part for part in parts if part.strip() not in lines] == []


@pytest.mark.parametrize("width", WIDTHS)
def test_no_line_is_wider_than_the_terminal_and_no_word_is_broken(width: int) -> None:
    page = render(report(), load_runbook("zombie-gpu"))
    shown = words_of(at_a_terminal(lambda: display.show_page(page), width))
    assert [line for line in shown.splitlines() if cell_len(line) > width and not line.startswith("    ") and " " in line.strip()] == []
    assert plain(page).replace("-", "").split() == shown.replace("-", "").split()


@pytest.mark.parametrize("width", WIDTHS)
def test_a_table_breaks_between_words_and_a_row_that_cannot_be_in_columns_is_a_list(width: int) -> None:
    headline = "GPU 3 is held by a stopped process, and everything that waits for it stands; `gpu-runbooks show lucky-otter` says more"
    rows = [("NODE", "OUTCOME", "WHAT"), ("gpu-node-with-a-long-name-017.example", "sick", headline), ("b", "healthy", "fine")]
    shown = at_a_terminal(lambda: display.show_table(rows, coloured=1), width)
    lines = words_of(shown).splitlines()
    assert max(map(cell_len, lines)) <= width
    assert set(" ".join(rows[1]).split()) <= set(words_of(shown).split())
    assert "`gpu-runbooks show lucky-otter`" in words_of(shown)
    assert "\x1b[1;33msick" in shown
    assert "\x1b[1;32mhealthy" in shown
    assert ("OUTCOME: sick" in words_of(shown)) == (width == 60)


def test_the_colour_is_that_of_who_is_needed() -> None:
    found = {o: at_a_terminal(lambda o=o: display.show_outcome(o, o.row.name, "x")) for o in Outcome}  # type: ignore[misc]
    assert "\x1b[1;31m" in found[Outcome.WAITING]
    assert "\x1b[1;33m" in found[Outcome.UNHEALTHY]
    assert "\x1b[1;32m" in found[Outcome.FIXED]
    assert "\x1b[1;33m" in found[Outcome.CANNOT_TELL]


def pty_of(*words: str, cwd: Path, **env: str) -> str:
    """What a person sees of a command at a real terminal."""
    return at_terminal(words, os.environ | {"GPU_RUNBOOKS_HOME": str(cwd / "home"), **env}, errors=False)[1]


def test_real_terminals(tmp_path: Path) -> None:
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text("name: f\nnodes: [{name: here, local: true}]\n")
    for words in (["list"], ["list", "zombie-gpu"], ["fleet", "check", str(fleet)], ["run", "host-limits", "local", "--no-server"]):
        shown = pty_of(*words, cwd=tmp_path)
        assert COLOUR.search(shown) or words[0] == "fleet" or words[1:] == ["zombie-gpu"], words
        assert obeyed(words_of(shown)) == []
        assert "Traceback" not in shown
        piped = pty_of(*words, cwd=tmp_path, NO_COLOR="1")
        assert not COLOUR.search(piped)
