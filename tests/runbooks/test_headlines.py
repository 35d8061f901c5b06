"""A headline is one line of a terminal, and no command line or long text of a process makes it longer."""

from collections import defaultdict
from typing import Any

from tests.runbooks.every import Situation, situations

LINE = 120
LONGER = {  # runbook: the longest of its situations, and why it may be
    "checkpoint-fallback": (156, "names the step to resume from and the older one that was checked"),
    "container-death": (281, "quotes the engine's own error"),
    "data-check": (142, "says how the file is to be read instead"),
    "distributed-setup": (150, "quotes the option or the line that is wrong"),
    "memory-pressure": (186, "names the process, its group and both numbers"),
    "ray-job": (286, "quotes a line of Ray's log"),
    "ssh-auth-failure": (299, "names the target, the stage and the kind of fault, and quotes the server"),
    "stale-rendezvous": (224, "names rendezvous, run and backend beside the fault"),
    "stuck-spawning": (338, "one run looks at all workers and names each that is wrong"),
    "zombie-gpu": (230, "names the device by its address, and quotes the driver"),
}
COMMAND = "python3 /srv/app/train.py --config /srv/app/configs/" + "x" * 2000
MARK = "x" * 50


def test_a_headline_fits_on_a_line() -> None:
    longest: dict[str, tuple[int, str]] = defaultdict(lambda: (0, ""))
    for s in situations():
        found = s.judge().headline
        longest[s.runbook] = max(longest[s.runbook], (len(found), f"{s.title}: {found}"))
    too_long = {name: seen for name, seen in longest.items() if seen[0] > LONGER.get(name, (LINE, ""))[0]}
    assert too_long == {}
    assert {name for name, (length, _) in longest.items() if length > LINE} == set(LONGER), "an exception that is needed no more"


def with_long_commands(s: Situation) -> Any:
    """The same evidence, each command line of a process as long as real ones are; None where it holds none."""
    found = s.evidence.model_dump()
    return type(s.evidence).model_validate(found) if _lengthen(found) else None


def _lengthen(value: Any) -> bool:
    changed = False
    if isinstance(value, dict):
        for name, held in value.items():
            if name in ("command", "subject") and isinstance(held, str) and (name == "command" or held.startswith("pid ")):
                value[name] = COMMAND if name == "command" else f"{held.partition(' (')[0]} ({COMMAND})"
                changed = True
            elif name != "source":
                changed |= _lengthen(held)
    elif isinstance(value, (list, tuple)):
        for held in value:
            changed |= _lengthen(held)
    return changed


def test_no_command_line_gets_into_a_headline() -> None:
    told, tried = [], set()
    for s in situations():
        changed = with_long_commands(s)
        if changed is None:
            continue
        tried.add(s.runbook)
        if MARK in s.judge(changed).headline:
            told.append(f"{s.runbook}: {s.title}")
    assert told == []
    assert {"host-limits", "zombie-gpu"} <= tried
