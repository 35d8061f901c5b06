"""What can be handed in: plain, gz, zst, UTF-16, journald and Docker JSON, alerts, folders; large in little memory."""

import gzip
import io
import json
import resource
from pathlib import Path

import pytest
import zstandard

from deployments.cli.triage import main
from runbooks.triage.judge import judge
from runbooks.triage.sources import blocks, stream_blocks
from runbooks.triage.unpack import SourceError

LINE = "RuntimeError: can't start new thread"


def slugs(data: bytes) -> list[str]:
    return [c.slug for c in judge(stream_blocks(io.BytesIO(data), "f")).causes]


@pytest.mark.parametrize(
    "data",
    [
        LINE.encode(),
        gzip.compress(LINE.encode(), mtime=0),
        zstandard.compress(LINE.encode()),
        b"\xff\xfe" + LINE.encode("utf-16-le"),
        b"\xef\xbb\xbf" + LINE.encode(),
        ("a\r\n" + LINE + "\r\n").encode(),
        json.dumps({"MESSAGE": "started", "_HOSTNAME": "n"}).encode() + b"\n" + json.dumps({"MESSAGE": LINE}).encode(),
        json.dumps({"MESSAGE": "x"}).encode() + b"\n" + json.dumps({"MESSAGE": list(LINE.encode())}).encode(),
        json.dumps({"log": LINE + "\n", "stream": "stderr", "time": "t"}).encode(),
    ],
)
def test_forms_of_the_same_line(data: bytes) -> None:
    assert slugs(data) == ["thread-limit"]


def test_a_firing_alert_counts_and_a_resolved_one_does_not() -> None:
    alert = {"status": "firing", "labels": {"alertname": "Xid", "node": "n1"}, "annotations": {"summary": "xid 79"}}
    assert slugs(json.dumps({"alerts": [alert]}).encode())
    assert not slugs(json.dumps({"alerts": [{**alert, "status": "resolved"}]}).encode())


def test_a_broken_gz_is_said(tmp_path: Path) -> None:
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(LINE.encode() * 1000)[:-20])
    with pytest.raises(SourceError, match=r"x\.gz"):
        list(blocks(path, "x.gz"))


def test_first_and_last_of_many_are_kept_in_little_memory() -> None:
    class Endless(io.RawIOBase):
        """160 MB of lines, made as they are read."""

        def __init__(self) -> None:
            super().__init__()
            self.left = 160
            self.block = b"".join(b"step %d loss 1.%d\n" % (i, i) for i in range(60_000))[: 1 << 20]

        def read(self, size: int = -1) -> bytes:
            self.left -= 1
            text = {158: f"\nfirst {LINE}\n", 0: f"\nlast {LINE}\n"}.get(self.left, "")
            return text.encode() or (self.block[:size] if self.left > 0 else b"")

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    out = judge(stream_blocks(Endless(), "big"))  # type: ignore[arg-type]
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    lines = out.causes[0].evidence
    assert lines[0].text.startswith("first")
    assert lines[-1].text.startswith("last")
    assert grown < 150, f"grew by {grown:.0f} MiB"


def test_exit_codes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def run(text: str, *more: str) -> int:
        path = tmp_path / "x.log"
        path.write_text(text)
        return main([str(path), *more])

    assert run("step 1 loss 2.0") == 3
    assert run(LINE) == 1
    assert run("root@h: Permission denied (publickey).") == 3
    assert main([]) == 2
    assert main([str(tmp_path / "none.log")]) == 2
    assert run("x", "--fact", "oops") == 2
    capsys.readouterr()
    assert run(LINE, "--json") == 1
    assert json.loads(capsys.readouterr().out)["causes"][0]["slug"] == "thread-limit"


def test_a_folder_is_read_as_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "one.log").write_text("fine\n")
    (tmp_path / "two.log.gz").write_bytes(gzip.compress(LINE.encode(), mtime=0))
    (tmp_path / "core").write_bytes(b"\0\1\2" * 100)
    assert main([str(tmp_path), "--progress"]) == 1
    said = capsys.readouterr().out
    assert "two.log.gz:1:" in said
    assert "core: not text" in said


def test_secrets_are_replaced_in_what_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.log"
    path.write_text(
        "AWS_SECRET_ACCESS_KEY=abcdEFGHijklMNOPqrstUVWXyz0123456789ABCD NoCredentialsError: Unable to locate\n"
    )
    assert main([str(path)]) == 1
    assert "abcdEFGH" not in capsys.readouterr().out


def test_a_line_of_many_megabytes_is_one_line() -> None:
    data = f"first\n{'x ' * (10 << 20)}{LINE}\nthird\n{LINE}\n".encode()
    (cause,) = judge(stream_blocks(io.BytesIO(data), "f")).causes
    assert [line.number for line in cause.evidence] == [2, 4]
