"""The words of `gpu-runbooks logs`. Only argparse and what reads its times are imported here, so that `--help` is quick."""

import argparse

from deployments.cli.log_times import log_time
from deployments.cli.words import Parser, seconds, within

EPILOG = """TARGET is one of:
  orchestrator   the logs that the fleet file names: platform, table, files
  worker/ID      the same, and that worker's own log
  FILE           a log file, or the platform's export (JSON)

times: 20m, 3h, 2d back from now; 03:10; 2026-03-02T03:10. UTC where no zone is given.

exit codes:
  0  every source was read whole
  1  a source was read in part, or could not be read
  2  bad usage or configuration, or no such file
  3  nothing could be read, or no cycle of the time of --at
130  interrupted, which ends --follow"""


def add_logs(parser: Parser) -> None:
    """Its arguments and options."""
    parser.epilog, parser.formatter_class = EPILOG, argparse.RawDescriptionHelpFormatter
    parser.add_argument("target", metavar="TARGET", nargs="+", help="orchestrator, worker/ID or a log file; several are merged")
    parser.add_argument("--fleet", metavar="FILE", help="fleet file")
    parser.add_argument("--since", type=log_time, metavar="TIME", help="only what was logged from then on")
    parser.add_argument("--until", type=log_time, metavar="TIME", help="only what was logged until then")
    parser.add_argument("--at", type=log_time, metavar="TIME", help="only the cycle of that time: what it decided, and why")
    parser.add_argument("--worker", metavar="ID", default="", help="only what names this worker, and its own log")
    parser.add_argument("--task", metavar="ID", default="", help="only what names this task")
    shown = within(0, 100_000, "--lines")
    parser.add_argument("--lines", type=shown, default=200, metavar="N", help="newest events that are shown (default 200)")
    parser.add_argument("--seconds", type=seconds, default=60.0, metavar="N", help="maximum time of reading (default 60)")
    looks = "what the lines of FILE look like: orchestrator (default), worker, or a shape of the fleet file"
    parser.add_argument("--shape", metavar="NAME", default="orchestrator", help=looks)
    parser.add_argument("--follow", action="store_true", help="continue with what is new, until interrupted")
