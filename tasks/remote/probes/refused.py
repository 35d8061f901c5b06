"""What a probe raises that will not touch it. Part of a probe; the codes are those of runbooks/core/refusal.py. Python 3.6."""


class Refused(Exception):
    """Nothing was changed. `code`: which kind of no."""

    def __init__(self, code: str, why: str) -> None:
        Exception.__init__(self, why)
        self.code = code


def refusal(error: Exception) -> "dict[str, str]":
    """The answer of a probe that raised it before anything was changed; an error of the system could not be looked past."""
    return {"refused": str(error), "code": error.code if isinstance(error, Refused) else "cannot-check"}
