"""Codes are explained from the same tables that runbooks judge by, and are never a verdict."""

import pytest

from runbooks.core.knowledge import load_table
from runbooks.gpu.xid_faults import xid_table
from runbooks.triage.load import library
from runbooks.triage.text import judge_lines


@pytest.mark.parametrize(
    ("text", "kind", "code"),
    [
        ("exited with code 139", "exit code", "139"),
        ("exitcode  : -9 (pid: 1)", "exit code", "-9"),
        ("received SIGXCPU", "signal", "XCPU"),
        ("OSError: [Errno 107] x", "errno", "107"),
        ("socket error errno: 113", "errno", "113"),
        ("ncclRemoteError: x", "NCCL result", "RemoteError"),
        ("HTTP/1.1 504 Gateway", "HTTP status", "504"),
        ("An error occurred (503) when", "HTTP status", "503"),
        ("<Code>SlowDown</Code>", "S3 error", "SlowDown"),
        ("ray.exceptions.OwnerDiedError: x", "Ray error", "OwnerDiedError"),
        ('"desiredStatus": "EXITED"', "RunPod state", "EXITED"),
        ("NVRM: Xid (PCI:0000:1b:00): 119, pid=1, Timeout", "Xid", "119"),
        ("alert: xid=48 on n1", "Xid", "48"),
    ],
)
def test_every_kind_of_code_is_found(text: str, kind: str, code: str) -> None:
    found = [(c.kind, c.code) for c in judge_lines(f"a\n{text}\nb").codes]
    assert (kind, code) in found


def test_xids_are_those_that_the_runbook_judges_by() -> None:
    rows = library().codes["xid"].rows
    assert {str(n) for n in xid_table()["xids"]} == set(rows)
    assert all(x["meaning"] in rows[str(n)].meaning for n, x in xid_table()["xids"].items())
    assert (
        judge_lines("NVRM: Xid (PCI:0000:1b:00): 45, pid=1").codes[0].decides == "the Xid before it in the kernel log"
    )


def test_every_row_says_what_decides() -> None:
    tables = load_table("codes")
    assert set(tables) == {"exit", "signal", "errno", "nccl", "http", "s3", "ray", "runpod"}
    assert all(r["meaning"] and r["decides"] for t in tables.values() for r in t["rows"].values())


def test_numbers_that_are_no_codes_stay_silent() -> None:
    assert not judge_lines("step 137 loss 403.5 status ok\nSIGNIFICANT error 28 %\nHTTP/1.1 200 OK").codes
    assert judge_lines("exit code 0").codes == ()
