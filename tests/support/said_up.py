"""A process of a test's that prints "up" once it is ready, and ends when its input does."""

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager


@contextmanager
def said_up(argv: Sequence[str], env: Mapping[str, str] | None = None) -> Iterator[int]:
    """Its pid, from the moment that it is ready."""
    process = subprocess.Popen(argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        yield process.pid
    finally:
        process.communicate()
