"""The reaper as a process of its own: one round every 15 s, until it is told to stop.

At first it makes the flows of the engine's records, which `prefect deploy` does not know.
"""

import logging
import signal
import sys
import threading
from contextlib import suppress
from types import FrameType

EVERY_S = 15.0


def main() -> int:
    """Runs until SIGTERM or Ctrl-C. An error in a round is logged, the next round comes. Of several, one does the work."""
    from deployments.old_records import retire
    from flows import records
    from flows.clock import server_now
    from flows.reaper import sweep
    from flows.reaper_lead import beat, leave, own_name
    from tasks.clean_log import clean_process

    clean_process()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stderr)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    stop = threading.Event()

    def end(_signum: int, _frame: FrameType | None) -> None:
        stop.set()

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    log = logging.getLogger("reaper")
    since, done, led_by, retired = None, 0, "", False
    while not stop.is_set():
        try:
            if since is None:
                records.make_flows()
                since = server_now()
            first = beat(since, done)
            if first is not None and first.name != led_by:
                led_by = first.name
                log.info("this reaper leads" if led_by == own_name() else f"{first.who} leads; standing by")
            done = len(sweep()) if led_by == own_name() else 0
            retired = retired or not retire()
        except Exception as e:
            log.warning("round failed: %s: %s", type(e).__name__, e)
        stop.wait(EVERY_S)
    with suppress(Exception):  # the server may have ended before
        leave()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
