"""What a person approves is what is visible: no text in a judgment hides a command, a reason or a choice, or adds one."""

from datetime import UTC, datetime

from hypothesis import example, given, settings
from hypothesis import strategies as st

from runbooks.core.clean import one_command, one_line
from runbooks.core.form import FOLD, FOLD_END, MOST, WHOLE, approval_text
from runbooks.core.plan import Plan, Step
from runbooks.core.render import render
from runbooks.core.verdict import Cause, Certainty, Diagnosis, State
from tests.core.samples import DIAGNOSIS, report
from tests.support.foreign import (
    HOSTILE_RUN,
    NASTY,
    PARSER,
    becomes_a_link,
    commands_shown,
    diagnoses,
    says,
    visible,
)

ALLOWED = {
    "heading_open", "heading_close", "paragraph_open", "paragraph_close", "inline", "fence",
    "bullet_list_open", "bullet_list_close", "list_item_open", "list_item_close",
}  # fmt: skip
INLINE = {"text", "code_inline", "strong_open", "strong_close"}


def judged(run: str) -> Diagnosis:
    """A dead run beside one whose name was chosen by an attacker."""
    step = Step(
        kind="clear-run", owner="store:etcd", args={}, commands=("curl -X DELETE http://etcd/llama-70b",), effect="gone", loses="it"
    )
    return Diagnosis(
        state=State.UNHEALTHY,
        headline=f"runs {run} and llama-70b are dead",
        causes=(Cause(slug="dead-run", certainty=Certainty.CONFIRMED, subject=run, evidence=(run,)),),
        plans=(Plan(name="clear run llama-70b (etcd)", steps=(step,), for_causes=("dead-run",)),),
    )


def wordy(most: int) -> Diagnosis:
    """A plan about many things, whose loss, effect and reason say the most important at their end."""
    names = ", ".join(f"/mnt/nvme/llama-70b-pretraining/checkpoints/step_{n:09}" for n in range(most))
    step = Step(
        kind="clear-run", owner="store:etcd", args={}, commands=("rm -r /mnt/x",),
        effect=f"free again: {names} and the last of them", loses=f"{names} and the only proven copy of step_99",
    )  # fmt: skip
    plan = Plan(name="prune", steps=(step,), for_causes=("dead-run",), why=f"{names} stay, the newest too", despite=f"{names} is active")
    return judged("run-7").model_copy(update={"plans": (plan,)})


LONG_NOTE = f"the nodes {', '.join(f'gpu-node-{n:04}.train.example.org' for n in range(300))}: a person of team B asked for hands off"


@given(diagnosis=diagnoses(), notes=st.lists(NASTY, max_size=3), title=NASTY)
@settings(max_examples=120, deadline=None)
@example(diagnosis=wordy(10), notes=[LONG_NOTE[-1900:]], title="Checkpoints")
@example(diagnosis=wordy(300), notes=[LONG_NOTE], title="Checkpoints")
@example(diagnosis=judged(HOSTILE_RUN), notes=["approve mode"], title="Rendezvous")
@example(diagnosis=judged("x [Approve](https://evil.example) <img src=x> www.evil.example"), notes=["a"], title="t")
def test_the_form_shows_every_command_and_reason_and_nothing_foreign_acts(
    diagnosis: Diagnosis, notes: list[str], title: str
) -> None:
    tokens = PARSER.parse(approval_text(title, "node-a", diagnosis, diagnosis.plans, tuple(notes)))
    steps = [s for p in diagnosis.plans for s in p.steps]
    html = [t.content.strip() for t in tokens if t.type == "html_block"]
    assert html in ([], [FOLD, FOLD_END])  # our own fold, and no other tag
    assert {t.type for t in tokens} - {"html_block"} <= ALLOWED
    assert {c.type for t in tokens for c in t.children or []} <= INLINE
    assert becomes_a_link(tokens) == []
    assert commands_shown(tokens) == [[one_command(c) for c in s.commands] for s in steps]
    heads = [tokens[i + 1].content for i, t in enumerate(tokens) if t.type == "heading_open"]
    assert len(heads) == 1 + len(diagnosis.plans)  # no choice that is not there
    fold = next((i for i, t in enumerate(tokens) if t.type == "html_block"), len(tokens))
    text = visible(tokens[:fold])  # what a person decides by is not folded
    wanted = [x for p in diagnosis.plans for x in (p.name, p.why, p.despite)] + [x for s in steps for x in (s.effect, s.loses)]
    folded = visible(tokens)  # but a text of pages goes on there
    shown = [(w, text if len(w) <= WHOLE else folded) for w in (*wanted, *notes, diagnosis.headline)]
    assert [w for w, where in shown if not says(where, w)] == []
    assert [w for w in (*wanted, *notes) if len(w) > WHOLE and not says(text, one_line(w)[:200])] == []


@given(diagnosis=diagnoses())
@settings(max_examples=40, deadline=None)
@example(diagnosis=judged(HOSTILE_RUN))
def test_the_report_shows_every_command_and_reason(diagnosis: Diagnosis) -> None:
    tokens = PARSER.parse(render(report(diagnosis=diagnosis, guards=("approve mode",))))
    shown = commands_shown(tokens)
    for step in (s for p in diagnosis.plans for s in p.steps):
        assert [one_command(c) for c in step.commands] in shown
    assert says(visible(tokens), "approve mode")
    assert becomes_a_link(tokens) == []


def test_long_foreign_text_cannot_push_the_commands_out_of_sight() -> None:
    endless = "x " * 200_000
    cause = Cause(slug="dead-run", certainty=Certainty.CONFIRMED, subject=endless, evidence=(endless,) * 500)
    hostile = judged(endless).model_copy(update={"causes": (cause,) * 40, "must_not": tuple(f"{i} {endless}" for i in range(90))})
    form = approval_text("Rendezvous", "node-a", hostile, hostile.plans, ("approve mode",))
    before = form[: form.index("curl -X DELETE")]
    assert len(before) < 1_500
    assert "Asked because" in before
    assert "[cut:" in before
    assert len(form) < 40_000
    assert f"and {500 - MOST + 1} more" in form


def test_names_that_look_alike_are_told_apart() -> None:
    """A person chooses by name: two plans never share one."""
    plan = DIAGNOSIS.plans[0]
    names = ("clear run a\u200b", "clear run a\ufeff", "clear run a\ufffd (2)", "clear\nrun a\u200b")
    judged_ = DIAGNOSIS.model_dump() | {"plans": [plan.model_dump() | {"name": n} for n in names]}
    found = [p.name for p in Diagnosis.model_validate(judged_).plans]
    assert found == ["clear run a\ufffd", "clear run a\ufffd (2)", "clear run a\ufffd (2) (2)", "clear run a\ufffd (3)"]
    assert len({p.digest for p in Diagnosis.model_validate(judged_).plans}) == 4


def test_the_form_says_first_what_decides() -> None:
    times = (datetime(2026, 11, 28, 23, 50, tzinfo=UTC), datetime(2026, 11, 29, 3, 50, tzinfo=UTC))
    risks = {"terminate-processes": "disruptive"}
    form = approval_text("Zombie GPU", "node-a", DIAGNOSIS, DIAGNOSIS.plans, ("approve mode",), risks, times=times)
    assert form.startswith("**Resume with nothing chosen rejects.**")
    assert "Asked at 2026-11-28 23:50:00 UTC. Without an answer by 2026-11-29 03:50:00 UTC, the run ends as “Not decided”" in form
    order = ("## Zombie GPU", "**GPU 0 is held", "**Asked because:**", "### Choice 1", "**Step 1:** terminate-processes on node-a")
    places = [form.index(x) for x in (*order, "(risk: disruptive)", "**Effect:**", "**Lost:**", "kill -CONT 4242\nkill -TERM 4242")]
    places += [form.index(x) for x in ("**Do not:**", FOLD, "**Waiting costs:**", "state T in all 12 looks")]
    assert places == sorted(places)
