"""Whether Prefect answers, for `/healthz`: anybody may ask that, so one question serves all for a few seconds."""

import threading
import time

from deployments.contact import why_refused

KEPT_S = 5.0
ANSWER_S = 1.0


class PrefectStatus:
    """The last finding, and when it was made."""

    def __init__(self) -> None:
        self._said, self._at = "not asked yet", float("-inf")
        self._one = threading.Lock()

    def said(self) -> str:
        """"answers", or what is wrong with it. One thread asks; the others get the last finding meanwhile."""
        if time.monotonic() - self._at > KEPT_S and self._one.acquire(blocking=False):
            try:
                self._said = why_refused(ANSWER_S) or "answers"
                self._at = time.monotonic()
            finally:
                self._one.release()
        return self._said
