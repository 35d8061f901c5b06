"""Looks once at the signs of progress of jobs: files, SQLite tables, logs. Reads only. JSON argument: {marks, cap}.

Answer per mark: value and unit, files found, seconds since the newest change, error ("" when read). SQLite is opened
with mode=ro; immutable only where no writer can be about (a WAL database without its -wal file).
"""

import glob
import json
import os
import sqlite3
import sys
import time
from typing import Any

SMALL = 64 << 20  # bytes of a database below which rows are counted one by one


def paths(pattern: str, cap: int) -> "list[str]":
    """Regular files that match."""
    found = [p for p in glob.iglob(pattern, recursive=True) if os.path.isfile(p)]
    return sorted(found)[:cap]


def wal_without_writer(path: str) -> bool:
    """Whether the header says WAL and no -wal file lies beside it: no connection is open."""
    with open(path, "rb") as f:
        head = f.read(20)
    return head[18:19] == b"\x02" and not os.path.exists(path + "-wal")


def rows(path: str, table: str) -> "tuple[int, str]":
    """Rows of a table, or its highest rowid where counting would take long."""
    quiet = wal_without_writer(path)
    escaped = path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    db = sqlite3.connect("file:%s?mode=ro%s" % (escaped, "&immutable=1" if quiet else ""), uri=True, timeout=0.5)
    end = time.monotonic() + 1.0
    db.set_progress_handler(lambda: time.monotonic() > end, 10000)
    name = '"%s"' % table.replace('"', '""')
    try:
        if os.path.getsize(path) < SMALL:
            return int(db.execute("SELECT count(*) FROM " + name).fetchone()[0]), "rows"  # noqa: S608
        return int(db.execute("SELECT max(rowid) FROM " + name).fetchone()[0] or 0), "highest rowid"  # noqa: S608
    finally:
        db.close()


def last_lines(path: str, size: int = 1 << 16, most: int = 40) -> "list[str]":
    """The end of a log, whole lines only."""
    with open(path, "rb") as f:
        f.seek(0, os.SEEK_END)
        start = max(0, f.tell() - size)
        f.seek(start)
        text = f.read(size).decode("utf-8", "replace")
    return (text.split("\n", 1)[-1] if start else text).splitlines()[-most:]


def look(mark: "dict[str, Any]", cap: int) -> "dict[str, Any]":
    """One mark."""
    found = paths(mark["path"], cap)
    stats = [os.stat(p) for p in found]
    ends = [os.stat(p + "-wal") for p in found if os.path.exists(p + "-wal")]
    newest = max((s.st_mtime for s in stats + ends), default=None)
    age = max(0.0, time.time() - newest) if newest is not None else None
    value, unit = sum(s.st_size for s in stats), "bytes"
    if mark["kind"] == "sqlite":
        each = [rows(p, mark["table"]) for p in found]
        value, unit = sum(v for v, _ in each), next((u for _, u in each if u != "rows"), "rows")
    newest_log = max(found, key=os.path.getmtime) if mark["kind"] == "log" and found else ""
    said = last_lines(newest_log) if newest_log else []
    return {"value": value, "unit": unit, "files": len(found), "age_s": age, "error": "", "said": said}


def unreadable(pattern: str) -> bool:
    """Whether the folder that the fixed part of the pattern names may not be searched."""
    fixed = pattern.split("*")[0].split("?")[0].split("[")[0]
    folder = os.path.dirname(fixed) or "/"
    return os.path.isdir(folder) and not os.access(folder, os.R_OK | os.X_OK)


def main(ask: "dict[str, Any]") -> "dict[str, Any]":
    """Every mark, in the order given."""
    found = []
    for mark in ask["marks"]:
        try:
            one = look(mark, int(ask["cap"]))
            one["error"] = (
                "denied: folder of %s" % mark["path"] if not one["files"] and unreadable(mark["path"]) else ""
            )
        except PermissionError as e:
            one = {"value": 0, "unit": "", "files": 0, "age_s": None, "error": "denied: %s" % e}
        except (OSError, sqlite3.Error) as e:
            one = {"value": 0, "unit": "", "files": 0, "age_s": None, "error": "failed: %s: %s" % (mark["path"], e)}
        found.append(one)
    return {"marks": found}


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
