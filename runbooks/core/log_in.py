"""How far a log-in over SSH got, for subjects that are not about SSH."""

from runbooks.core.base import Frozen


class LogInSeen(Frozen):
    """One judged log-in."""

    stage: str = ""  # where it ended: "done", or the stage that failed; "": the wire was not read
    cause: str = ""  # the first cause, where it did not get through
    certainty: str = ""
    headline: str = ""
    unknown_key: str = ""  # the host key that was shown and that nobody had recorded
    changed: bool = False  # another host key was shown than the recorded one
