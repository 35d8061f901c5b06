"""A text in, its causes out. Pure: runbooks use it on text that they read themselves."""

from collections.abc import Mapping

from runbooks.triage.model import Candidate, Outcome


def judge_lines(text: str, facts: Mapping[str, str] | None = None) -> Outcome:
    """The whole answer to `text`: causes, starting points left open, facts. Secrets must be replaced before."""
    import io

    from runbooks.triage.judge import judge
    from runbooks.triage.sources import stream_blocks

    return judge(stream_blocks(io.BytesIO(text.encode("utf-8", "replace")), "text"), facts)


def judge_text(text: str, facts: Mapping[str, str] | None = None) -> tuple[Candidate, ...]:
    """Causes that `text` points to, most credible first; then starting points that it leaves open (`possible`)."""
    outcome = judge_lines(text, facts)
    return (*outcome.causes, *outcome.undecided)
