"""A secret scanner that is not ours, as a judge: rules of its own, no network, nothing validated."""

import json
import subprocess
import sys
from pathlib import Path

OFFLINE = ("--no-validate", "--no-update-check", "--git-history", "none")


def findings(folder: Path) -> dict[str, set[str]]:
    """What it finds in the files of `folder`: file name -> rules."""
    program = Path(sys.executable).parent / "kingfisher"
    assert program.exists(), "install the scanner: python -m pip install kingfisher-bin"
    said = folder.with_name(f"{folder.name}.findings.jsonl")
    done = subprocess.run(
        [program, "scan", folder, *OFFLINE, "--confidence", "low", "--no-dedup", "-q", "--format", "jsonl", "-o", said],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode in (0, 200, 205), (
        done.returncode,
        done.stderr[-2000:],
    )  # 200 and above: something was found
    found: dict[str, set[str]] = {}
    for line in said.read_text(encoding="utf-8").splitlines():
        data = json.loads(line)
        if "finding" in data:
            found.setdefault(Path(data["finding"]["path"]).name, set()).add(str(data["rule"]["id"]))
    return found
