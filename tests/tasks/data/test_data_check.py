"""Real files on the local node: each kind of damage named with file, line and byte; whole ones pass."""

import gzip
import json
import os
import re
import struct
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from runbooks.core.fleet import Fleet, Node
from runbooks.core.knowledge import load_runbook
from runbooks.core.verdict import Certainty, Diagnosis, State
from runbooks.data.diagnose import CAUSE, Limits, diagnose
from runbooks.data.parsers.data_index import HEADER, MAGIC
from runbooks.data.parsers.data_jsonl import LONGEST_LINE
from runbooks.triage.text import judge_text
from tasks.context import Context
from tasks.data.read import gather_data_check
from tasks.transport.local import LocalHost

BOOK = load_runbook("data-check")
GOOD = b"".join(json.dumps({"text": f"line \u20ac {i}", "id": i}).encode() + b"\n" for i in range(50))


def judge(path: Path, **options: Any) -> Diagnosis:
    fleet = Fleet(nodes=(Node(name="a", local=True),))
    ctx = Context(
        fleet=fleet, target="a", open_host=lambda n: LocalHost(n.name), options={"data": [str(path)], **options}
    )
    return diagnose(gather_data_check(ctx), Limits(**BOOK.limit_values()))


JSONL = {
    "whole": (GOOD, "", 0), "crlf": (GOOD.replace(b"\n", b"\r\n"), "", 0),
    "no final newline": (GOOD[:-1], "", 0), "cut": (GOOD[:-20], "cut-off", 50),
    "two on a line": (GOOD[:-1] + b'{"text": "x"}\n', "several-values", 50), "array": (b"[" + GOOD[:-1].replace(b"\n", b",\n") + b"]",
    "json-array", 0), "array cut": (b"[" + GOOD[:-20].replace(b"\n", b",\n"), "cut-off", 0),
    "array without commas": (b"[" + GOOD + b"]", "bad-record", 0),
    "object over lines": (json.dumps({"text": ["a"] * 9}, indent=1).encode(), "json-array", 0),
    "gzip": (gzip.compress(GOOD), "compressed", 0), "latin-1": (GOOD + b'{"text": "\xe9"}\n', "encoding", 51),
    "utf-16": (GOOD.decode().encode("utf-16"), "encoding", 0), "bad line": (GOOD + b"{oops}\n" + GOOD, "bad-record",
    51),
    "zeros": (GOOD + bytes(4096) + b"\n", "zero-hole", 51), "empty": (b"", "empty-file", 0),
    "lfs": (b"version https://git-lfs.github.com/spec/v1\n", "not-data", 0), "list": (GOOD + b"[1]\n", "bad-record",
    51),
}  # fmt: skip


@pytest.mark.parametrize("name", JSONL)
def test_jsonl(tmp_path: Path, name: str) -> None:
    data, slug, line = JSONL[name]
    path = tmp_path / "train.jsonl"
    path.write_bytes(data)
    got = judge(path, text_key="text")
    assert [c.slug for c in got.causes] == ([slug] if slug else []), got.headline
    assert got.state is (State.UNHEALTHY if slug else State.HEALTHY)
    if line:
        assert f"line {line}, byte " in got.causes[0].evidence[0]
    assert got.must_not
    assert path.read_bytes() == data


REFUSED = "json.decoder.JSONDecodeError: Unexpected UTF-8 BOM (decode using utf-8-sig): line 1 column 1 (char 0)\n"


@pytest.mark.parametrize(("log", "sure", "state"), [("", "possible", State.CANNOT_TELL), (REFUSED, "likely", State.UNHEALTHY)])
def test_a_byte_order_mark_is_told(tmp_path: Path, log: str, sure: str, state: State) -> None:
    """Whether the job's loader takes it, its log says; a file without one is whole with the same log of another file."""
    path, said = tmp_path / "train.jsonl", tmp_path / "log"
    said.write_text(log)
    for data, want in ((b"\xef\xbb\xbf" + GOOD, [("encoding", sure)]), (GOOD, [])):
        path.write_bytes(data)
        got = judge(path, **({"log": str(said)} if log else {}))
        assert [(c.slug, str(c.certainty)) for c in got.causes] == want
        assert got.state is state or not want
        assert "are whole" not in got.headline or not want


def test_a_file_that_ends_within_a_character_is_cut_off(tmp_path: Path) -> None:
    """Two of a character's three bytes at the very end; the same in the middle is another encoding."""
    path, within = tmp_path / "train.jsonl", "{\"text\": \"\u20ac".encode()[:-1]
    for data, slug in ((GOOD + within, "cut-off"), (GOOD + within + b"\"}\n" + GOOD, "encoding")):
        path.write_bytes(data)
        assert [c.slug for c in judge(path).causes] == [slug]
    path.write_bytes(b"[" + GOOD[:-1].replace(b"\n", b",\n") + b"," + within)
    assert [c.slug for c in judge(path).causes] == ["cut-off"]


READS = 'Traceback (most recent call last):\n  File "/opt/lib/text_dataset.py", line 7, in load\n    row[key]\nKeyError: {}\n'
SHAREGPT = b'{"id": "a", "conversations": [{"from": "human", "value": "x"}]}\n' * 3


@pytest.mark.parametrize(
    ("data", "log", "want"),
    [
        (b'{"TEXT": "a", "n": 1}\n' * 3, "KeyError: 'text'\n", ["wrong-key likely"]),
        (SHAREGPT, READS.format("'role'"), ["wrong-key likely"]),
        (SHAREGPT, READS.format("'value'"), []),  # its values inside have it
        (SHAREGPT, READS.format("'role'").replace("text_dataset.py", "modeling.py"), []),  # other code asked for something
        (SHAREGPT, "KeyError: 'messages'\n", ["wrong-key possible"]),
        (GOOD, READS.format("'text'"), []),
        (GOOD + b'{"id": 7}\n', READS.format("'text'"), ["wrong-key likely"]),  # all but one have it
        (b"[" + SHAREGPT[:-1].replace(b"\n", b",\n") + b"]", READS.format("'role'"), ["wrong-key likely", "json-array confirmed"]),
        (GOOD, "KeyError: 'n'\nKeyError: 'text'\n", []),  # the last one counts
    ],
)
def test_the_key_that_the_log_ends_at_is_looked_for(tmp_path: Path, data: bytes, log: str, want: list[str]) -> None:
    """A key that no record has, nor all of them, is told with how sure the log's own frames make it."""
    path, said = tmp_path / "train.json", tmp_path / "log"
    path.write_bytes(data)
    said.write_text(log)
    got = judge(path, log=str(said))
    assert [f"{c.slug} {c.certainty}" for c in got.causes if c.slug != "jsonl-named-json"] == want
    assert got.state is (State.UNHEALTHY if "wrong-key likely" in want else State.CANNOT_TELL)


def test_a_text_of_another_encoding_is_at_fault_where_the_log_refuses_that_byte(tmp_path: Path) -> None:
    path, said = tmp_path / "prose.txt", tmp_path / "log"
    path.write_bytes(b"It was a quiet morning.\n" * 40 + b"Nobody\x92s door was open.\n")
    refuses = "UnicodeDecodeError: 'utf-8' codec can't decode byte 0x{} in position 966: invalid start byte\n"
    for byte, want in (("92", ["encoding likely", "other-format possible"]), ("e9", ["other-format possible"])):
        said.write_text(refuses.format(byte))
        assert [f"{c.slug} {c.certainty}" for c in judge(path, log=str(said)).causes] == want
    assert [c.slug for c in judge(path).causes] == ["other-format"]


def test_keys_that_occur_are_named(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(GOOD)
    got = judge(path, text_key="content")
    assert "in 50 of 50 lines; keys that occur: id (50), text (50)" in got.causes[0].evidence[0]


def test_jsonl_read_as_json_is_fine(tmp_path: Path) -> None:
    path, log = tmp_path / "train.json", tmp_path / "log"
    path.write_bytes(GOOD)
    log.write_text("ValueError: Extra data: line 2 column 1 - line 991 column 1 (char 700 - 901156)\n")
    assert judge(path).state is State.HEALTHY
    got = judge(path, log=str(log))
    assert [c.slug for c in got.causes] == ["jsonl-named-json"]
    assert "rewrite or repair the data set" in got.must_not


def index(tmp_path: Path, lengths: tuple[int, ...] = (3, 5, 2), top: int = 99, **change: Any) -> Path:
    pointers, at = [], 0
    for n in lengths:
        pointers.append(at)
        at += 2 * n
    documents = change.get("documents", [0, 1, len(lengths)])
    pointers = change.get("pointers", pointers)
    body = struct.pack(f"<{len(lengths)}i{len(pointers)}q{len(documents)}q", *lengths, *pointers, *documents)
    head = HEADER.pack(change.get("magic", MAGIC), 1, 8, len(lengths), len(documents))
    (tmp_path / "d.bin").write_bytes(struct.pack("<9H", *range(9)) + struct.pack("<H", top) + change.get("more", b""))
    (tmp_path / "d.idx").write_bytes((head + body)[: change.get("cut")])
    return tmp_path / "d.idx"


@pytest.mark.parametrize(
    ("change", "slug"),
    [
        ({}, ""), ({"cut": 60}, "index-damaged"), ({"magic": b"TNTIDX\0\0\0"}, "index-legacy"), ({"magic": b"x" * 9},
        "index-damaged"),
        ({"more": b"12"}, "index-stale"), ({"lengths": (3, 5, 4)}, "data-cut"), ({"pointers": [0, 8, 16]},
        "index-damaged"),
        ({"documents": [0, 2, 1]}, "index-damaged"), ({"documents": [1, 3]}, "index-damaged"), ({"top": 100},
        "ids-out-of-range"),
    ],
)  # fmt: skip
def test_index(tmp_path: Path, change: dict[str, Any], slug: str) -> None:
    got = judge(index(tmp_path, **change), vocabulary=100)
    assert [c.slug for c in got.causes] == ([slug] if slug else []), got.headline


def test_a_vocabulary_that_no_file_could_use_is_named(tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    path.write_bytes(GOOD)
    got = judge(path, vocabulary=50000)
    assert got.state is State.CANNOT_TELL
    assert "option vocabulary was given but not used" in got.headline
    assert judge(path).state is State.HEALTHY
    assert judge(index(tmp_path), vocabulary=50000).state is State.HEALTHY
    path.write_bytes(GOOD[:-20])
    cut = judge(path, vocabulary=50000)
    assert cut.state is State.UNHEALTHY
    assert any("option vocabulary" in x for x in cut.unknowns)


def test_index_missing(tmp_path: Path) -> None:
    index(tmp_path).unlink()
    assert [c.slug for c in judge(tmp_path / "d.bin").causes] == ["index-missing"]
    assert judge(tmp_path / "none.jsonl").state is State.UNHEALTHY


@pytest.mark.parametrize("slug", BOOK.causes)
def test_signatures(slug: str) -> None:
    for s in BOOK.causes[slug].signatures:
        assert re.search(s.pattern, s.example), s.pattern
    assert set(CAUSE.values()) <= set(BOOK.causes)


def test_triage_of_public_cases() -> None:
    cut = "# the last line of the file cannot be parsed; it ends in the middle of a string"
    assert first(cut) == "cut-off"
    assert (
        first("ValueError: Extra data: line 2 column 1 - line 991 column 1 (char 700 - 901156)") == "jsonl-named-json"
    )


def first(text: str) -> str:
    return next(c.slug for c in judge_text(text) if c.slug in BOOK.causes)


def test_what_is_no_file_or_changes_is_not_judged(tmp_path: Path) -> None:
    """A pipe and an endless device are not waited for; the last line of a file that grows is not called cut off."""
    pipe, endless, growing = tmp_path / "a.jsonl", tmp_path / "b.jsonl", tmp_path / "c.jsonl"
    os.mkfifo(pipe)
    os.mknod(endless, 0o20666, os.makedev(1, 5))  # /dev/zero
    for path in (pipe, endless):
        got = judge(path)
        assert got.state is State.CANNOT_TELL, got
        assert got.causes == ()
    growing.write_bytes(GOOD * 200)
    over = threading.Event()

    def write() -> None:
        with growing.open("ab", buffering=0) as f:
            while not over.is_set():
                f.write(GOOD[:-20])
                time.sleep(0.001)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        got = judge(growing)
    finally:
        over.set()
        writer.join()
    assert got.causes == ()
    assert "changed while it was read" in " ".join(got.unknowns), got


OTHERS = {  # what is no JSONL and no damage either
    "csv": b"id,text\n1,a\n2,b\n", "plain text": b"Once upon a time\nthere was a loader\n", "parquet": b"PAR1" + bytes(range(1, 200)),
    "one line": b"../../.git/annex/objects/8w/ZK/MD5E-s19277683.tsv.gz",
    "tar": bytes(257) + b"ustar\x0000" + bytes(300), "npy": b"\x93NUMPY\x01\0" + bytes(range(1, 99)),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_another_format_is_no_damage(tmp_path: Path, name: str) -> None:
    path = tmp_path / "train.data"
    path.write_bytes(OTHERS[name])
    got = judge(path)
    assert [(c.slug, c.certainty) for c in got.causes] == [("other-format", Certainty.POSSIBLE)], got.causes
    assert got.state is State.CANNOT_TELL
    assert got.headline.startswith("Nothing was found wrong, and not all could be judged")
    path.write_bytes(GOOD + OTHERS[name])  # the same bytes below records are no format any more
    assert judge(path).state is State.UNHEALTHY


def test_a_line_longer_than_is_parsed_is_no_damage(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(GOOD + b'{"text": "' + b"a" * LONGEST_LINE + b'"}\n' + GOOD)
    got = judge(path)
    assert [(c.slug, c.certainty) for c in got.causes] == [("beyond-reader", Certainty.POSSIBLE)]
    assert "line 51" in got.causes[0].evidence[0]
    assert got.state is State.CANNOT_TELL
    path.write_bytes(GOOD + b'{"text": "' + b"a" * LONGEST_LINE + b'"}\n{oops}\n' + GOOD)
    got = judge(path)
    assert {c.slug for c in got.causes} == {"bad-record", "beyond-reader"}
    assert "line 52" in next(c for c in got.causes if c.slug == "bad-record").evidence[0], "the long line is one line"


def test_nesting_that_python_does_not_parse_is_no_damage(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(GOOD + b'{"text": ' + b"[" * 100_000 + b"]" * 100_000 + b"}\n")
    got = judge(path)
    assert [(c.slug, c.certainty) for c in got.causes] == [("beyond-reader", Certainty.POSSIBLE)]


def test_one_value_in_a_file_named_json_is_well(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(json.dumps([{"text": "a"}] * 9, indent=1).encode())
    got = judge(path)
    assert got.state is State.HEALTHY
    assert [(c.slug, c.benign) for c in got.causes] == [("json-array", True)]
    whole = path.read_bytes()
    path.write_bytes(b"\xef\xbb\xbf" + whole)
    marked = judge(path)
    assert [(c.slug, c.benign) for c in marked.causes] == [("encoding", False), ("json-array", True)]
    assert marked.state is State.CANNOT_TELL, "many readers take the mark"
    path.write_bytes(whole)
    path.write_bytes(path.read_bytes()[:-30])
    assert [c.slug for c in judge(path).causes] == ["cut-off"]
