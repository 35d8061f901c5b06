"""Looks for secrets in everything that a server recorded: those that the fault harness plants, and what a scanner finds."""

import string
import subprocess
from collections.abc import Iterable
from pathlib import Path

from tests.support.kingfisher import findings
from tests.support.planted import log_line, pieces, planted

SEED = 14


def planted_log() -> str:
    """A log full of secrets, for worlds of the fault harness."""
    return "".join(map(log_line, planted(SEED).values()))


def secrets_in(rows: Iterable[str], folder: Path) -> list[str]:
    """In words: each row that holds a piece of a planted secret, and each rule by which the scanner found something."""
    (folder / "kept").mkdir()
    file, wanted = folder / "kept" / "database.sql", folder / "pieces"
    with file.open("w", encoding="utf-8") as out:
        out.writelines(f"{row}\n" for row in rows)
    telling = {p for s in planted(SEED).values() for p in pieces(s) if not set(p) <= set(string.hexdigits)}  # ids are hex as well
    wanted.write_text("\n".join(sorted(telling)) + "\n", encoding="utf-8")
    found = subprocess.run(["grep", "-aFf", wanted, file], capture_output=True, text=True, check=False)
    said = [f"a planted one in {row[:80]}" for row in found.stdout.splitlines()]
    return said + [f"{rule} in the database" for rule in findings(file.parent).get(file.name, ())]
