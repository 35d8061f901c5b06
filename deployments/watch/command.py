"""`gpu-runbooks watch`: stays and looks after the fleet file's containers until it is told to end."""

import argparse
import logging
import signal
import sys
from types import FrameType

from deployments.cli.missing_secrets import check_secrets
from deployments.errors import CommandError
from deployments.paths import absolute
from deployments.reports import check_reports
from deployments.serving import use_running_server
from flows.config import load_fleet

DRAIN_LIMIT_S = 600.0


def cmd_watch(ns: argparse.Namespace) -> int:
    """Watches until SIGTERM or Ctrl-C; lets actions in progress end."""
    from flows.config import load_policy

    fleet = load_fleet(absolute(ns.fleet))
    load_policy(absolute(ns.policy))
    check_reports(ns.out, fleet)
    use_running_server()
    check_secrets(fleet, absolute(ns.fleet))
    from deployments.watch.service import Watch
    from deployments.watch.settings import Settings
    from runbooks.core.policy import Mode
    from tasks.clean_log import clean_process

    clean_process()
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(message)s", stream=sys.stderr)
    logging.getLogger("watch").setLevel(logging.INFO)
    settings = Settings(Mode(ns.mode), absolute(ns.fleet), absolute(ns.policy), absolute(ns.out))
    watch = Watch(fleet, settings)

    def end(_signum: int, _frame: FrameType | None) -> None:
        watch.stop()

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    try:
        watch.run()
    except RuntimeError as e:
        raise CommandError(str(e), 3) from e
    watch.drain(DRAIN_LIMIT_S)
    return 0
