"""The reaper as a process of its own: one round every 15 s, until it is told to stop.

At first it registers the engine's records, which `prefect deploy` cannot (deployments without a work pool).
"""

import logging
import signal
import sys
import threading
from types import FrameType

EVERY_S = 15.0


def main() -> int:
    """Runs until SIGTERM or Ctrl-C. An error in a round is logged, the next round comes."""
    from deployments.register import register_records
    from flows.reaper import sweep
    from tasks.clean_log import clean_process

    clean_process()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stderr)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    stop = threading.Event()

    def end(_signum: int, _frame: FrameType | None) -> None:
        stop.set()

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    registered = False
    while not stop.is_set():
        try:
            if not registered:
                register_records()
                registered = True
            sweep()
        except Exception as e:
            logging.getLogger("reaper").warning("round failed: %s: %s", type(e).__name__, e)
        stop.wait(EVERY_S)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
