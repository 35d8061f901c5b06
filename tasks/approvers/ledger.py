"""Checks one-time codes: each counts once, wrong ones are counted, and too many lock the name for an hour.

That a code was used is known on every machine (`FirstUse`); verdicts and wrong codes stand in a file of this one.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from runbooks.core.base import Frozen
from runbooks.core.totp import matching_step
from tasks.approvers.locked import locked_json
from tasks.approvers.secrets import NoSecrets, read_approvers
from tasks.installation import state_folder

MOST_WRONG = 10  # per name and hour, over all runs: a guess is right once in 330,000
WINDOW = timedelta(hours=1)
KEPT = timedelta(days=60)  # answers are looked up again each time that their run goes on
FirstUse = Callable[[str, int, str], str]
"""(name, time step, question) → the question that this code was used for first, anywhere. Raises if that is not known."""


class CodeCheck(Frozen):
    """Was the code right, and if not, why."""

    ok: bool
    said: str = ""


def check_code(name: str, code: str, question: str, at: datetime, first_use: FirstUse) -> CodeCheck:
    """Judges the code that `name` gave for `question` at `at`. The same question always gets the same verdict.

    `at` is when the answer reached the server, not now: the run may go on hours later.
    """
    try:
        secret = read_approvers().get(name)
    except NoSecrets as e:
        return CodeCheck(ok=False, said=f"codes cannot be checked on this machine: {e}")
    if secret is None:
        return CodeCheck(ok=False, said=f"no approver {name!r} on the machine that checks: gpu-runbooks approver add")
    try:
        with locked_json(state_folder() / "approver-codes.json") as book:
            return _judge(book, secret, name, code, question, at, first_use)
    except Exception as e:
        return CodeCheck(ok=False, said=f"the book of used codes cannot be kept ({type(e).__name__}), so none counts")


def _judge(
    book: dict[str, Any], secret: bytes, name: str, code: str, question: str, at: datetime, first_use: FirstUse
) -> CodeCheck:
    verdicts, used, wrong = (book.setdefault(k, {}) for k in ("verdicts", "used", "wrong"))
    if question in verdicts:
        return CodeCheck(ok=verdicts[question]["ok"], said=verdicts[question]["said"])
    recent = [t for t in wrong.get(name, []) if at - datetime.fromisoformat(t) < WINDOW]
    verdict = _fresh(used.setdefault(name, {}), recent, secret, name, code, question, at, first_use)
    if verdict.said == WRONG:
        recent.append(at.isoformat())
    wrong[name] = recent
    verdicts[question] = {"ok": verdict.ok, "said": verdict.said, "at": at.isoformat()}
    _forget(verdicts, at)
    return verdict


WRONG = "wrong code"


def _fresh(
    used: dict[str, str],
    recent: list[str],
    secret: bytes,
    name: str,
    code: str,
    question: str,
    at: datetime,
    first_use: FirstUse,
) -> CodeCheck:
    if len(recent) >= MOST_WRONG:
        return CodeCheck(ok=False, said=f"{len(recent)} wrong codes for {name} within an hour: locked, try later")
    step = matching_step(secret, code, at)
    if step is None:
        return CodeCheck(ok=False, said=WRONG)
    if used.get(str(step), question) != question or first_use(name, step, question) != question:
        return CodeCheck(ok=False, said="this code was used before: wait for the next one")
    for old in [s for s in used if int(s) < step - 100]:
        del used[old]
    used[str(step)] = question
    return CodeCheck(ok=True)


def _forget(verdicts: dict[str, Any], at: datetime) -> None:
    for question in [q for q, v in verdicts.items() if at - datetime.fromisoformat(v["at"]) > KEPT]:
        del verdicts[question]
