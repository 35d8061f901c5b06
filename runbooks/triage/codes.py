"""What the codes in a text mean, by the tables of runbooks/knowledge/: exit codes, signals, errno, NCCL, HTTP, S3, Ray, RunPod, Xid."""

from collections.abc import Mapping
from typing import Any

from runbooks.core.base import Frozen
from runbooks.triage.probe import Matcher, Raw

MOST = 8
XID = r"\bXid \([^)]*\): ?(?P<code>\d{1,3})\b|\bxid\b[ =:]+(?P<named>\d{1,3})\b"
EARLIER = "the Xid before it in the kernel log"
_ACTIONS = {
    "none": "nothing to do for it alone",
    "app": "the application that the line names, started again",
    "reset": "nvidia-smi -q of that GPU; it needs a reset once it is drained",
    "reboot": "the earlier lines of the kernel log; the node needs a reboot",
    "support": "NVIDIA's field diagnosis",
    "decode": "the words of the line, by NVIDIA's catalogue",
    "obey": "the action that the line itself names",
}


class CodeMeaning(Frozen):
    """What a code means and which reading decides about it."""

    meaning: str
    decides: str


class CodeTable(Frozen):
    """Codes of one kind, and how they stand in a text."""

    title: str
    pattern: str
    rows: dict[str, CodeMeaning]


def xid_table(data: Mapping[str, Any]) -> CodeTable:
    """The table of xids.yaml in the form of the others."""
    rows = {
        str(code): CodeMeaning(meaning=_meaning(x), decides=EARLIER if x["role"] == "follows" else _ACTIONS[x["action"]])
        for code, x in data["xids"].items()
    }
    return CodeTable(title="Xid", pattern=XID, rows=rows)


def _meaning(xid: Mapping[str, Any]) -> str:
    return f"{xid['meaning']}{'; it follows another Xid' if xid['role'] == 'follows' else ''}"


def found(tables: Mapping[str, CodeTable], probes: Mapping[str, Matcher]) -> list[tuple[str, str, CodeMeaning, Raw]]:
    """(kind, code, meaning, first line) of every known code, in the order of the text."""
    first: dict[tuple[str, str], tuple[str, str, CodeMeaning, Raw]] = {}
    for table in tables.values():
        for hit in probes[table.pattern].hits:
            code = hit.groups.get("code") or hit.groups.get("named", "")
            row = table.rows.get(code) or table.rows.get(code.upper())
            if row:
                first.setdefault((table.title, code), (table.title, code, row, hit.line))
    return sorted(first.values(), key=lambda f: f[3].order)[:MOST]
