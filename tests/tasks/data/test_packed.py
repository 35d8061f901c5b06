"""Packed files: one that is named so is judged by what it holds; one that is not, or that its reader did not unpack, is packed."""

import bz2
import gzip
import json
from pathlib import Path

import pytest

from runbooks.core.verdict import Certainty, State
from tests.tasks.data.test_data_check import GOOD, judge

ROWS = [{"text": "a"}] * 9
CRC = gzip.compress(GOOD)[:-8] + b"\0" * 8
READ_PACKED = "UnicodeDecodeError: 'utf-8' codec can't decode byte 0x8b in position 1: invalid start byte\n"
AS_ONE = "json.decoder.JSONDecodeError: Extra data: line 2 column 1 (char 173565)\n"


@pytest.mark.parametrize(
    ("name", "data", "log", "causes", "state"),
    [
        ("t.jsonl.gz", gzip.compress(GOOD), "", [], State.HEALTHY),
        ("t.jsonl.gz", gzip.compress(GOOD[:900]) + gzip.compress(GOOD[900:]), "", [], State.HEALTHY),
        ("t.jsonl", gzip.compress(GOOD), "", ["compressed confirmed"], State.UNHEALTHY),
        ("t.jsonl.zst", gzip.compress(GOOD), "", ["compressed confirmed"], State.UNHEALTHY),
        ("t.jsonl.gz", gzip.compress(GOOD), READ_PACKED, ["compressed confirmed"], State.UNHEALTHY),
        ("t.jsonl.gz", gzip.compress(GOOD), AS_ONE, ["jsonl-named-json confirmed"], State.UNHEALTHY),
        ("t.json.gz", gzip.compress(GOOD), "", ["jsonl-named-json likely"], State.HEALTHY),
        ("t.json.gz", gzip.compress(json.dumps(ROWS).encode()), "", ["json-array confirmed"], State.HEALTHY),
        ("t.jsonl.gz", gzip.compress(json.dumps(ROWS, indent=1).encode()), "", ["json-array confirmed"], State.UNHEALTHY),
        ("t.jsonl.gz", gzip.compress(GOOD + b'{"text": "\xe9"}\n'), "", ["encoding confirmed"], State.UNHEALTHY),
        ("t.jsonl.gz", gzip.compress(GOOD + b"{oops}\n" + GOOD), "", ["bad-record confirmed"], State.UNHEALTHY),
        ("t.jsonl.gz", gzip.compress(GOOD[:-20]), "", ["cut-off confirmed"], State.UNHEALTHY),
        ("t.jsonl.gz", gzip.compress(GOOD)[:-200], "", ["cut-off confirmed"], State.UNHEALTHY),
        ("t.json.gz", gzip.compress(json.dumps(ROWS).encode())[:-12], "", ["cut-off confirmed"], State.UNHEALTHY),
        ("t.jsonl.gz", CRC, "", ["other-format possible"], State.CANNOT_TELL),
        ("t.csv.gz", gzip.compress(b"id,text\n1,a\n2,b\n"), "", ["other-format possible"], State.CANNOT_TELL),
        ("t.jsonl.bz2", bz2.compress(GOOD), "", ["other-format possible"], State.CANNOT_TELL),
        ("t.jsonl", bz2.compress(GOOD), "", ["compressed confirmed"], State.UNHEALTHY),
    ],
)
def test_a_packed_file(name: str, data: bytes, log: str, causes: list[str], state: State, tmp_path: Path) -> None:
    path, said = tmp_path / name, tmp_path / "log"
    path.write_bytes(data)
    said.write_text(log)
    got = judge(path, **({"log": str(said)} if log else {}))
    assert [f"{c.slug} {c.certainty}" for c in got.causes] == causes, got
    assert got.state is state
    assert path.read_bytes() == data


def test_what_is_wrong_in_a_packed_file_has_its_line_there(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl.gz"
    path.write_bytes(gzip.compress(GOOD + b"{oops}\n" + GOOD))
    (cause,) = judge(path).causes
    assert (cause.slug, cause.certainty) == ("bad-record", Certainty.CONFIRMED)
    assert f"line 51, byte {len(GOOD) + 1}: " in cause.evidence[0]
    assert "(in what it holds unpacked)" in cause.evidence[0]


def test_a_text_field_is_looked_for_in_what_it_holds(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl.gz"
    path.write_bytes(gzip.compress(GOOD))
    assert [c.slug for c in judge(path, text_key="content").causes] == ["wrong-key"]
    assert judge(path, text_key="text").causes == ()
