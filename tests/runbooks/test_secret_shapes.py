"""Every form of the table and every everyday shape is replaced, whatever stands around it; our own words stay."""

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from runbooks.core.redact import Redactor
from runbooks.core.secret_shapes import Shape, shapes
from tests.support.planted import leaked, made
from tests.support.yaml_file import read_yaml

R = Redactor(b"0123456789abcdef-test")
ROOT = Path(__file__).parents[2]
EVERYDAY = read_yaml(ROOT / "tests/data/redact/everyday.yaml")
VALUE = "q7Zt-canary4Vx2Lm9"
AROUND = (
    "{0}",
    "error near ({0}), giving up",
    "X={0}\n",
    "a\nb {0} c\nd",
    '{{"x": "{0}"}}',
    "['run', '{0}']",
    "<{0}>",
    "url = '{0}';",
    "\0{0}\0",
    "`{0}`",
    "| {0} | x |",
    "é {0} …",
)
ROWS = (*shapes().tokens, *shapes().addresses)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row.name))
def test_every_form_is_replaced_in_every_place(row: Shape) -> None:
    for seed, around in enumerate(AROUND):
        secret = made(row.sample, seed)
        text = around.format(secret.text)
        for size in (0, 400):  # long texts are read line by line
            out = R.text(text + "\n" + "line of a log\n" * size)
            assert leaked(out, [secret]) == [], text
            assert "<secret:" in out
            assert R.text(out) == out
    assert row.source.startswith("https://")


@pytest.mark.parametrize("form", [f for kind, forms in EVERYDAY["secrets"].items() if kind != "words" for f in forms])
def test_an_everyday_secret_is_replaced(form: str) -> None:
    for around in ("{0}", "2025-01-01 10:00:00 INFO {0}", "line\n{0}\nline"):
        out = R.text(around.replace("{0}", form.format(VALUE)))
        assert "canary" not in out
        assert "<secret:" in out
        assert R.text(out) == out


@pytest.mark.parametrize("text", EVERYDAY["secrets"]["words"])
def test_a_plain_word_that_is_a_secret_is_replaced(text: str) -> None:
    out = R.text(text)
    assert "swordfish" not in out
    assert "83915" not in out
    assert "<secret:" in out


def test_the_shapes_are_as_many_as_were_counted() -> None:
    assert sum(map(len, EVERYDAY["secrets"].values())) >= 62
    assert len(ROWS) >= 80


@pytest.mark.parametrize("text", EVERYDAY["ordinary"])
def test_ordinary_text_stays(text: str) -> None:
    assert R.text(text) == text
    assert R.text(f"2025-01-01 10:00:00 INFO {text}\nnext") == f"2025-01-01 10:00:00 INFO {text}\nnext"


def strings(data: Any) -> Iterator[str]:
    if isinstance(data, str):
        yield data
    elif isinstance(data, dict):
        yield from (s for pair in data.items() for part in pair for s in strings(part))
    elif isinstance(data, list):
        yield from (s for part in data for s in strings(part))


def our_own() -> Iterator[tuple[str, str]]:
    """Every text of ours that a person may read: knowledge, golden reports, sentences in the code, README and docs."""
    for path in sorted((ROOT / "runbooks").rglob("*.yaml")):
        if path.name != "secret_shapes.yaml":
            yield from ((str(path), s) for s in strings(yaml.load(path.read_text(), Loader=yaml.CSafeLoader)))
    for path in sorted((ROOT / "tests").rglob("golden/**/*.*")):
        if path.suffix in (".md", ".json", ".txt", ".html"):
            yield from ((str(path), line) for line in [path.read_text(), *path.read_text().splitlines()])
    for room in ("runbooks", "tasks", "flows", "deployments"):
        for path in sorted((ROOT / room).rglob("*.py")):
            if "lab" not in path.parts and not path.name.startswith(("redact", "secret_")):
                tree = ast.parse(path.read_text(encoding="utf-8"))
                texts = (n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str))
                yield from ((str(path), t) for t in texts if " " in t and "\\" not in t)  # sentences, not expressions
    for path in (*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("*/README.md")), *sorted(ROOT.glob("runbooks/*/*.md"))):
        yield from ((str(path), line) for line in path.read_text().splitlines())
    headlines = read_yaml(ROOT / "tests/corpus/headlines.yaml")
    yield from (("headlines", s) for s in strings(headlines))


def test_our_own_words_stay() -> None:
    texts = dict.fromkeys(our_own())
    assert len(texts) > 12_000
    shown = [(where, text, R.text(text)) for where, text in texts if "PRIVATE KEY-----" not in text]
    assert [(where, text[:200], out[:200]) for where, text, out in shown if text != out] == []


def test_evidence_as_data_stays() -> None:
    """Field names of our own models, under which values of ours stand."""
    data = {
        "deploy_key": "it has CRLF line ends",
        "host_key": "ecdsa-sha2-nistp256",
        "auth": "publickey",
        "key": "sha256:" + "ab12" * 16,
        "commit": "0123456789abcdef0123456789abcdef01234567",
        "credentials": "they are in order",
        "use_auth": True,
        "keys": ["/torchelastic/a", "/torchelastic/b"],
    }
    assert R.data(data) == data


def test_command_lines_by_the_table() -> None:
    for words in (
        ["docker", "login", "-u", "me", "-p", VALUE],
        ["/usr/bin/mysql", "-uroot", f"-p{VALUE}", "db"],
        ["sudo", "redis-cli", "-a", VALUE],
        ["curl", "-u", f"me:{VALUE}", "http://h"],
        ["sh", "-c", f"mysql -p{VALUE}"],
        ["sshpass", "-p", VALUE, "ssh", "-p", "22", "h"],
        ["app", "--db-pass", VALUE],
        ["vault", "login", VALUE],
        ["twine", "upload", "-u", "__token__", "-p", VALUE],
        ["openssl", "enc", "-d", "-k", VALUE],
        ["/opt/bin/sqlplus", "-S", f"app/{VALUE}@db", "@run.sql"],
    ):
        out = R.argv(words)
        assert VALUE not in " ".join(out)
        assert len(out) == len(words)
        assert VALUE not in json.dumps(R.data({"cmd": words}))
        assert VALUE not in R.text(json.dumps(words))
    for words in (["docker", "run", "-p", "80:80", "x"], ["ssh", "-p", "22", "h"], ["docker", "ps", "-a"]):
        assert list(R.argv(words)) == words
    for words in (["wandb", "login", "--relogin"], ["vault", "login"], ["sqlplus", "/nolog"]):
        assert list(R.argv(words)) == words


def test_the_check_sees_a_part() -> None:
    secret = made("hf_{A34}", 1)
    assert leaked(f"x{secret.text[20:31]}x", [secret]) == [secret.text]
    assert all(made(row.sample, 0).parts for row in ROWS)
