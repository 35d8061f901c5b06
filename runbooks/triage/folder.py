"""The files of a folder that are read, and what of it is not."""

import os
from pathlib import Path

MOST_FILES = 20_000


def files_below(folder: Path) -> tuple[list[Path], list[str]]:
    """Regular files in the order in which they are read, logs before JSON and YAML; and notes on what is left out."""
    found: list[Path] = []
    links, shut = 0, []
    for place, names, files in os.walk(folder, onerror=lambda e: shut.append(str(e.filename))):
        names.sort()
        links += sum(os.path.islink(os.path.join(place, n)) for n in names)  # noqa: PTH118, PTH114 - of many files
        for name in sorted(files):
            path = Path(place, name)
            if path.is_symlink():
                links += 1
            elif path.is_file():
                found.append(path)
    found.sort(key=lambda p: (p.suffix in (".json", ".yaml"), str(p)))
    notes = [f"{folder}: links are not followed ({links})"] if links else []
    notes += (
        [f"{shut[0]}: cannot be opened" + (f", and {len(shut) - 1} more folders" if len(shut) > 1 else "")]
        if shut
        else []
    )
    if len(found) > MOST_FILES:
        notes.append(f"{folder}: only the first {MOST_FILES} of {len(found)} files are read")
    return found[:MOST_FILES], notes
