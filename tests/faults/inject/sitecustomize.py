"""Loaded at the start of every Python process of the fault harness (PYTHONPATH): the toy runbook and the faults."""

import os
import sys

if os.environ.get("TOY_WORLDS"):
    from tests.faults.fault import install_faults
    from tests.support import toy

    toy.install()
    install_faults()

if os.environ.get("RELATIVE_LOG"):
    OURS = tuple(f"{os.sep}{room}{os.sep}" for room in ("tasks", "flows", "deployments", "runbooks"))

    def note(event: str, args: tuple[object, ...]) -> None:
        """Writes down each relative path that code of ours opens for writing: it lies in the process's own folder."""
        if event != "open" or not isinstance(args[0], str | os.PathLike) or os.fspath(args[0])[:1] in ("/", b"/"):
            return
        if not isinstance(args[2], int) or not args[2] & (os.O_WRONLY | os.O_RDWR):
            return
        frame = sys._getframe(1)
        for _ in range(6):  # pathlib and open() stand between
            if any(room in frame.f_code.co_filename for room in OURS):
                with open(os.environ["RELATIVE_LOG"], "a") as f:  # noqa: PTH123
                    f.write(f"{args[0]!r} by {frame.f_code.co_filename}:{frame.f_lineno}\n")
                return
            if frame.f_back is None:
                return
            frame = frame.f_back

    sys.addaudithook(note)
