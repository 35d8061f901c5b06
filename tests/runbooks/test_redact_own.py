"""Our own sentences stay as they are, whatever names stand in them; a secret in them is still found by its value or form."""

import random
import string
from collections.abc import Iterator
from enum import Enum
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel, create_model

from runbooks.core.kinds import KINDS, undo_of
from runbooks.core.knowledge import folder_of, load_runbook, runbook_slugs
from runbooks.core.nightly import NightlyReport
from runbooks.core.plan import Risk, Step
from runbooks.core.redact import Redactor
from runbooks.core.redact_own import is_made, own_model, own_text
from runbooks.core.report import ActionRecord, Report, Undo
from runbooks.core.verdict import Cause, Certainty, Diagnosis, State
from runbooks.ssh.evidence import GivenKey
from tests.core.samples import PLAN, report
from tests.runbooks.every import situations
from tests.support.arguments import sample
from tests.support.planted import leaked, planted
from tests.support.yaml_file import read_yaml

R = Redactor(b"0123456789abcdef-test")
DATA = Path(__file__).parents[1] / "data/redact"
EVERYDAY = read_yaml(DATA / "everyday.yaml")["secrets"]
ALGORITHMS = [x for x in (DATA / "algorithms.txt").read_text(encoding="utf-8").splitlines() if not x.startswith("#")]
NAMES = ("deploy_key", "auth", "DB_PASSWORD")
PARTS = 4  # of what tries every enum under every name: no test takes over a minute
AROUND = ("{0}: {1}", "Secret {0} is {1}", "{0}={1}")


def texts(data: Any) -> Iterator[str]:
    if isinstance(data, str):
        yield data
    elif isinstance(data, dict | list | tuple):
        for x in data.values() if isinstance(data, dict) else data:
            yield from texts(x)


def sentences() -> set[str]:
    """What every judge says in every situation of the tests, and all that runbook.yaml says."""
    said = {t for s in situations() for t in texts(s.judge().model_dump(mode="json"))}
    books = {t for slug in runbook_slugs() for t in texts(load_runbook(slug).model_dump(mode="json"))}
    return {t for t in said | books if len(t.split()) > 2}


def test_every_sentence_of_ours_stays_behind_every_name() -> None:
    ours = sentences()
    plain = {one for one in ours if not any(map(is_made, one.split()))}  # an id beside a secret's name is taken for its value
    assert len(plain) > 4000
    eaten = [
        (text, out)
        for one in sorted(plain)
        for text in (one, *(form.format(name, one) for name in NAMES for form in AROUND))
        if (out := own_text(R, text)) != text
    ]
    assert eaten == []
    assert [one for one in sorted(ours) if own_text(R, one) != one] == []


def test_the_verdict_on_a_key_stays() -> None:
    for words in ("deploy_key: it has CRLF line ends", 'the server offers "auth": publickey', "deploy_key: OpenSSH key, cut short"):
        cause = Cause(slug="key-file-unparsable", certainty=Certainty.CONFIRMED, subject="deploy_key", evidence=(words,))
        found = Diagnosis(state=State.UNHEALTHY, headline=words, causes=(cause,), must_not=(words,), do_now=(words,))
        assert own_model(R, found, sentences=True) == found.model_dump(mode="json")


def test_a_field_of_ours_is_not_secret_for_its_name() -> None:
    key = GivenKey(source="Secret deploy-key-7", secret="deploy-key-7", present=True, why_not=planted()["huggingface"].text)
    out = own_model(R, key, sentences=False)
    assert (out["secret"], out["source"]) == ("deploy-key-7", "Secret deploy-key-7")
    assert out["why_not"].startswith("<secret:huggingface:")
    assert GivenKey.model_validate(out)


def models(of: Any, seen: set[Any]) -> Iterator[type[BaseModel]]:
    """Every model that a field of that type can hold, at any depth, once."""
    if isinstance(of, type) and issubclass(of, BaseModel) and of not in seen:
        seen.add(of)
        yield of
        for field in of.model_fields.values():
            yield from models(field.annotation, seen)
    for part in get_args(of):
        yield from models(part, seen)


def enums(of: Any) -> Iterator[type[Enum]]:
    if isinstance(of, type) and issubclass(of, Enum):
        yield of
    for part in get_args(of):
        yield from enums(part)


@cache
def kept_models() -> tuple[type[BaseModel], ...]:
    """Every model of a report: its own, the nightly's and each runbook's evidence."""
    seen: set[Any] = set()
    evidence = [import_module(f"runbooks.{folder_of(slug)}.evidence").Evidence for slug in runbook_slugs()]
    return tuple(m for top in (Report, NightlyReport, *evidence) for m in models(top, seen))


def names() -> set[str]:
    """Every name of ours that may be a key: kinds of action, causes, limits, options, fields of the models."""
    books = [load_runbook(slug) for slug in runbook_slugs()]
    ours = {name for book in books for name in (*book.causes, *book.limits, *book.options)}
    return {*KINDS, *ours, *(name for model in kept_models() for name in model.model_fields)}


@pytest.mark.parametrize("part", range(PARTS))
def test_a_word_of_one_of_our_enums_stays_under_every_name_wherever_it_stands(part: int) -> None:
    found = {e for model in kept_models() for field in model.model_fields.values() for e in enums(field.annotation)}
    assert {Risk, State, Certainty} <= found
    for kind in sorted(found, key=lambda k: k.__qualname__)[part::PARTS]:
        one: Any = kind
        fields: Any = {"flat": dict[str, one], "deep": dict[str, dict[str, tuple[one, ...]]], "listed": tuple[dict[str, one], ...]}
        holder: Any = create_model("Holder", **fields)
        for member in kind:
            flat = dict.fromkeys((*names(), *NAMES), member)
            held = holder(flat=flat, deep={"password": dict.fromkeys(NAMES, (member,))}, listed=(flat,))
            for sentences in (True, False):
                assert own_model(R, held, sentences=sentences) == held.model_dump(mode="json")


def test_a_mapping_of_foreign_words_is_cleaned_by_its_names_though_the_words_are_ours() -> None:
    holder: Any = create_model("Holder", words=dict[str, str], mixed=dict[str, Any])
    for risk in Risk:
        held = holder(words={"password": risk.value}, mixed={"password": "swordfish", "worst": risk})
        for sentences in (True, False):
            out = own_model(R, held, sentences=sentences)
            assert out["words"]["password"].startswith("<secret:password:")
            assert out["mixed"]["password"].startswith("<secret:password:")


@pytest.mark.parametrize("kind", KINDS)
def test_a_report_of_every_kind_of_action_stays_as_it_is(kind: str) -> None:
    step = Step(kind=kind, owner="node-a", args=sample(kind), commands=("true",), effect=f"{kind} was done")
    plan = PLAN.model_copy(update={"name": kind, "steps": (step,)})
    act = ActionRecord(owner="node-a", kinds=(kind,), act_run="r", digest=plan.digest, outcome="done", said=(f"{kind}: done",))
    words, commands = undo_of(step)
    act = act.model_copy(update={"undo": (Undo(kind=kind, words=words, commands=commands),)})
    limits = {name: limit.value for slug in runbook_slugs() for name, limit in load_runbook(slug).limits.items()}
    diagnosis = report().diagnosis.model_copy(update={"plans": (plan,)})
    risks = {name: row.risk for name, row in KINDS.items()}
    whole = report(diagnosis=diagnosis, chosen=plan, acts=(act,), risks=risks, limits=limits, evidence={})
    out = own_model(R, whole, sentences=True)
    assert out == whole.model_dump(mode="json")
    assert Report.model_validate(out) == whole


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_public_name_of_an_algorithm_stays(name: str) -> None:
    for form in ("auth: {}", '"host_key": "{}"', "key_auth={}", "deploy_key: {} 256 bits", "token: {}", "--auth {}", "secret: {}"):
        text = form.format(name)
        assert R.text(text) == text
        assert own_text(R, text) == text
    assert own_text(R, f"password: {name}") == f"password: {name}"


def test_a_secret_in_a_sentence_of_ours_is_found_by_its_form() -> None:
    for one in planted(3).values():
        text = f"the log says: connecting with {one.text}"
        assert leaked(own_text(R, text), [one]) == [], text


def test_a_made_up_value_behind_a_name_is_found() -> None:
    """Of 24 letters and digits at random; and the hash of it, so that twice is once."""
    rng = random.Random(16)
    forms = [f for kind, those in EVERYDAY.items() if kind != "words" for f in those]
    left = 0
    for form in forms:
        value = "".join(rng.choices(string.ascii_letters + string.digits, k=24))
        out = own_text(R, form.format(value))
        left += value in out
        assert own_text(R, out) == out
    assert left <= len(forms) // 100


def test_a_known_value_is_found_in_a_sentence_of_ours() -> None:
    assert "swordfish" not in own_text(R.knowing({"LEADER_TOKEN": "swordfish"}), "the leader said swordfish is stale")
