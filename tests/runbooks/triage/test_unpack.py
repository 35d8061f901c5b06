"""Compressed, cut, nested and endless things that people hand in, and folders that hold odd files."""

import bz2
import gzip
import io
import json
import lzma
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard

from deployments.cli.triage import main
from runbooks.triage import folder, unpack
from tests.runbooks.triage.test_inputs import LINE, archive, read

XID = "NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus"
FIRST = f"{LINE}\n".encode()


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress, bz2.compress, lzma.compress])
def test_what_was_read_before_a_compressed_file_breaks_is_judged(pack: Callable[[bytes], bytes]) -> None:
    rest = os.urandom(1_000_000 if pack is bz2.compress else 200_000).hex()  # bzip2 has blocks of 900 kB
    whole = pack(FIRST + rest.encode())
    out, notes = read(whole)
    assert ([c.slug for c in out.causes], notes) == (["thread-limit"], [])
    out, notes = read(whole[: -len(whole) // 4])
    assert [c.slug for c in out.causes] == ["thread-limit"]
    assert "ends or breaks here" in notes[0]


def test_several_members_garbage_behind_and_compression_of_what_is_compressed() -> None:
    assert [c.slug for c in read(gzip.compress(b"fine\n") + gzip.compress(FIRST))[0].causes] == ["thread-limit"]
    assert [c.slug for c in read(zstandard.compress(b"fine\n") + zstandard.compress(FIRST))[0].causes] == [
        "thread-limit"
    ]
    out, notes = read(gzip.compress(FIRST) + b"garbage")
    assert ([c.slug for c in out.causes], len(notes)) == (["thread-limit"], 1)
    assert [c.slug for c in read(gzip.compress(bz2.compress(FIRST)))[0].causes] == ["thread-limit"]
    assert [c.slug for c in read(archive(("in.tar.gz", archive(("x.log", FIRST)))))[0].causes] == ["thread-limit"]


def test_what_grows_without_end_is_read_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpack, "MOST", 3 << 20)
    out, notes = read(gzip.compress(FIRST + b"x\n" * (8 << 20)))
    assert [c.slug for c in out.causes] == ["thread-limit"]
    assert "were read" in notes[0]


def test_an_archive_that_must_be_unpacked_first_is_named() -> None:
    assert "unpack it" in read(b"PK\x03\x04" + b"\0" * 100)[1][0]


def test_a_folder_of_odd_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.log").write_bytes(FIRST)
    (tmp_path / "loop").symlink_to(".")
    (tmp_path / "self").symlink_to("self")
    os.mkfifo(tmp_path / "fifo")
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(tmp_path / "s"))
        assert main([str(tmp_path)]) == 1
    assert "links are not followed (2)" in capsys.readouterr().out
    monkeypatch.setattr(folder, "MOST_FILES", 2)
    for name in ("b.log", "c.log"):
        (tmp_path / name).write_text("fine\n")
    assert main([str(tmp_path)]) == 1
    assert "only the first 2 of 3 files" in capsys.readouterr().out


def alert(**more: Any) -> dict[str, Any]:
    return {"labels": {"alertname": "GpuXid", "instance": "n1"}, "annotations": {"summary": XID}, **more}


@pytest.mark.parametrize(
    ("payload", "found"),
    [
        ({"version": "4", "status": "firing", "alerts": [alert(status="firing")]}, True),
        ({"version": "4", "status": "resolved", "alerts": [alert(status="resolved")]}, False),
        ({"alerts": [alert(status="firing", annotations={})], "commonAnnotations": {"summary": XID}}, True),
        ({"status": "success", "data": {"alerts": [alert(state="firing")]}}, True),
        ({"status": "success", "data": {"alerts": [alert(state="inactive")]}}, False),
        ({"status": "success", "data": {"groups": [{"rules": [{"alerts": [alert(state="firing")]}]}]}}, True),
        ([alert(status={"state": "active", "silencedBy": []})], True),
        ({"alerts": [None, 1, {"labels": None, "annotations": []}, alert(status="firing")], "labels": {}}, True),
        ({"kind": "Pod", "metadata": {"labels": {"a": "b"}, "annotations": {"note": XID}}}, True),
    ],
    ids=["v4", "resolved", "common", "prometheus", "inactive", "rules", "api v2", "odd", "no alert at all"],
)
def test_alerts_of_every_sender(payload: Any, found: bool) -> None:
    assert [c.slug for c in read(json.dumps(payload, indent=1).encode())[0].causes] == ["gpu-off-the-bus"] * found


def test_a_stream_tells_its_error_after_its_last_bytes() -> None:
    stream = unpack.unpacked(unpack.Counted(io.BytesIO(gzip.compress(FIRST)[:-4]), None), "x")
    assert stream.read(1 << 20) == FIRST
    with pytest.raises(unpack.SourceError, match="x: the compressed file"):
        stream.read(1)
