"""Writes again all that is made from runbook.yaml, the refusals, the skeleton and an example: `python -m deployments.runbook_pages`.

That is README.md of every runbook folder, the README's table, parts of CONTRIBUTING.md, and prefect.yaml. What a person has to
say about a runbook as a whole stands in guide.md beside its runbook.yaml and is taken in as it is.
"""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from deployments.cli.new_runbook import skeleton
from runbooks.core.kinds import KINDS
from runbooks.core.knowledge import CauseKnowledge, Runbook, folder_of, load_runbook, runbook_slugs
from runbooks.core.refusal import RefusalCode
from runbooks.core.undo import in_words

ROOT = Path(__file__).resolve().parents[1] / "runbooks"
CONTRIBUTING, README = ROOT.parent / "CONTRIBUTING.md", ROOT.parent / "README.md"
LANGUAGES = {".py": "python", ".yaml": "yaml"}
ENGINE_TEST = "tests/flows/test_created_folder.py"  # what CONTRIBUTING.md shows as the test of an action
EXAMPLE = "read-only-mounts"  # the runbook that CONTRIBUTING.md shows
MADE = "<!-- made by `python -m deployments.runbook_pages` from runbook.yaml and guide.md: change those -->"


def page(slug: str) -> str:
    """The whole README.md of a runbook."""
    book, guide = load_runbook(slug), folder(slug) / "guide.md"
    parts = [MADE, f"# {book.title} (`{slug}`)", book.summary.strip(), f"Target: {book.target}. Run it: `gpu-runbooks run {slug} TARGET`."]
    parts.append("Symptoms:\n\n" + "\n".join(f"- {s}" for s in book.symptoms))
    if book.options:
        parts.append("\n".join(_options(book)))
    if guide.is_file():
        parts.append(guide.read_text(encoding="utf-8").strip())
    parts.append("## Causes")
    parts += ["\n\n".join(_cause(name, cause)) for name, cause in book.causes.items()]
    if book.actions:
        parts.append("\n".join(_actions(book)))
    if book.limits:
        parts.append("\n".join(_limits(slug, book)))
    if book.references:
        parts.append("## References\n\n" + "\n".join(f"- {r}" for r in book.references))
    return "\n\n".join(parts) + "\n"


def folder(slug: str) -> Path:
    """Where the runbook lies."""
    return ROOT.joinpath(*folder_of(slug).split("."))


def _options(book: Runbook) -> Iterator[str]:
    yield "| option | what it is good for | unit | example |\n|---|---|---|---|"
    for name, o in book.options.items():
        choices = f" ({', '.join(o.choices)})" if o.choices else ""
        yield f"| `{name}` | {_cell(o.title)}: {_cell(o.help)}{_cell(choices)} | {_cell(o.unit)} | {_cell(o.example)} |"


def _cause(name: str, cause: CauseKnowledge) -> Iterator[str]:
    kind = " (benign: nothing is done)" if cause.benign else " (a starting point, not a cause)" if cause.inconclusive else ""
    yield f"### {cause.title}{kind}"
    yield f"`{name}`. {' '.join(cause.explanation.split())}"
    yield f"Decided by: {'; '.join(' '.join(d.split()) for d in cause.decided_by)}."
    yield f"Remedy: {' '.join(cause.remedy.split())}"
    if cause.must_not:
        yield f"Do not: {'; '.join(' '.join(m.split()) for m in cause.must_not)}."
    if cause.forbids or cause.forbids_on_it:
        yield f"Withholds: {', '.join(f'`{k}`' for k in (*cause.forbids, *cause.forbids_on_it))}."


def _actions(book: Runbook) -> Iterator[str]:
    yield "## Actions\n\nDone only where the policy and a person allow it. Each plan is proven by reading and judging everything again.\n"
    yield "| action | risk | what it changes | how it is proven | how it is undone |\n|---|---|---|---|---|"
    for kind in book.actions:
        row = KINDS[kind]
        yield f"| `{kind}` | {row.risk} | {_cell(row.changes)} | {_cell(row.proven)} | {_cell(in_words(row.undone))} |"


def _limits(slug: str, book: Runbook) -> Iterator[str]:
    yield f"## Limits\n\nA fleet file changes them under `limits: {{{slug}: {{NAME: VALUE}}}}`.\n"
    yield "| limit | value | unit | source |\n|---|---|---|---|"
    for name, limit in book.limits.items():
        yield f"| `{name}` | {limit.value} | {_cell(limit.unit)} | {_cell(limit.source)} |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def contributing(text: str) -> str:
    """CONTRIBUTING.md with the table of refusal codes, the new runbook and the test of an action as they are now."""
    rows = "\n".join(f"| `{code}` | {_cell(code.row.meaning)} | {_cell(code.row.do)} |" for code in RefusalCode)
    tried = {ENGINE_TEST: (ROOT.parent / ENGINE_TEST).read_text(encoding="utf-8")}
    text = _between("engine test", _files(tried), _between("new runbook", _files(skeleton(EXAMPLE)), text))
    return _between("refusals", f"| code | meaning | what to do |\n|---|---|---|\n{rows}", text)


def _files(texts: Mapping[str, str]) -> str:
    return "\n\n".join(f"`{path}`\n\n```{LANGUAGES[Path(path).suffix]}\n{text}```" for path, text in texts.items())


def readme(text: str) -> str:
    """README.md with the table of runbooks as it is now."""
    places = {slug: f"runbooks/{folder(slug).relative_to(ROOT)}/README.md" for slug in runbook_slugs()}
    rows = "\n".join(f"| [`{slug}`]({place}) | {_cell(load_runbook(slug).title)} |" for slug, place in places.items())
    return _between("runbooks", f"| runbook | what it is about |\n|---|---|\n{rows}", text)


def _between(name: str, made: str, text: str) -> str:
    """The text with what is made between its two marks."""
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    before, _, rest = text.partition(begin)
    return f"{before}{begin}\n\n{made}\n\n{end}{rest.partition(end)[2]}"


def main() -> int:
    """Writes all of it."""
    from deployments import prefect_yaml  # imports Prefect

    for path, made in ((CONTRIBUTING, contributing), (README, readme)):
        path.write_text(made(path.read_text(encoding="utf-8")), encoding="utf-8")
    for slug in runbook_slugs():
        (folder(slug) / "README.md").write_text(page(slug), encoding="utf-8")
    prefect_yaml.PATH.write_text(prefect_yaml.render(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
