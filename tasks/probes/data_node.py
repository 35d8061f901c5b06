"""Checks training data files on the node as streams. Changes nothing. JSON argument: {files: [{path, kind, text_key,
vocabulary}]}."""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Iterator
from typing import Any

from runbooks.parsers.data_index import check_ids, check_index
from runbooks.parsers.data_jsonl import LONGEST_LINE, check_lines


def _lines(path: str) -> Iterator[bytes]:
    with open(path, "rb") as f:
        while True:
            line = f.readline(LONGEST_LINE + 1)
            if not line:
                return
            yield line


def jsonl(ask: dict[str, Any]) -> dict[str, Any]:
    """One JSONL file."""
    with open(ask["path"], "rb") as f:
        head = f.read(512)
    found = check_lines(_lines(ask["path"]), head, ask.get("text_key", ""))
    return {**found._asdict(), "faults": [list(x) for x in found.faults]}


def index(ask: dict[str, Any]) -> dict[str, Any]:
    """One .idx/.bin pair, named by its stem or by either file."""
    stem = ask["path"][:-4] if ask["path"].endswith((".idx", ".bin")) else ask["path"]
    idx, data = stem + ".idx", stem + ".bin"
    faults: list[Any] = []
    for path in (idx, data):
        if not os.path.exists(path):
            faults.append(["index-missing" if path == idx else "data-missing", "%s is not there" % path, 0, 0])
    if faults:
        return {"faults": faults}
    with open(idx, "rb") as i, open(data, "rb") as b:
        size, data_size = os.path.getsize(idx), os.path.getsize(data)
        head, found = check_index(lambda at, n: os.pread(i.fileno(), n, at), size, data_size)
        faults = [list(x) for x in found]
        if head and not found and ask.get("vocabulary"):
            ids = check_ids(lambda at, n: os.pread(b.fileno(), n, at), data_size, head.code, ask["vocabulary"])
            faults += [list(x) for x in ids]
    older = os.path.getmtime(idx) < os.path.getmtime(data) - 1
    return {"faults": faults, "older": older, "lines": head.sequences if head else 0, "bytes": data_size}


def check(ask: dict[str, Any]) -> dict[str, Any]:
    """One file, by its kind."""
    try:
        path = ask["path"]
        as_index = ask.get("kind") == "index" or (not ask.get("kind") and path.endswith((".idx", ".bin")))
        out = index(ask) if as_index else jsonl(ask)
        return {"path": path, "kind": "index" if as_index else "jsonl", **out}
    except OSError as e:
        return {"path": ask["path"], "error": errno.errorcode.get(e.errno or 0, "?")}


def main(ask: dict[str, Any]) -> dict[str, Any]:
    """All files."""
    return {"files": [check(f) for f in ask["files"]]}


if __name__ == "__main__":
    json.dump(main(json.loads(sys.argv[1])), sys.stdout)
