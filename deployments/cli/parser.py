"""The command line's words. Only argparse is imported here, so that `--help` is quick."""

import argparse
from typing import TypeAlias

from deployments.cli.logs_words import add_logs
from deployments.cli.words import Parser, port, seconds, within

EXIT_CODES = """exit codes:
  0  nothing wrong, not applicable, or fixed
  1  something is wrong, or the run waits for a person
  2  bad usage or configuration, or a file, folder or port that cannot be used
  3  cannot tell
  4  refused by a guard
  5  the Prefect server cannot be used, or stopped answering
  6  a bug in gpu-runbooks; the message names the file with the traceback
  7  `--wait`: no worker is there to carry the run on
129  the terminal was closed (SIGHUP)
130  interrupted, or the input ended before an answer
141  the reader of the output has closed it
143  ended by SIGTERM"""


Commands: TypeAlias = "argparse._SubParsersAction[Parser]"


def build_parser() -> Parser:
    """Every command and option. `ns.command` (and `ns.fleet_command`) say which was given."""
    parser = Parser(
        prog="gpu-runbooks",
        description="Runbooks for GPU fleets: what is wrong, what not to do, a safe fix, proof, a report.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="store_true", help="print the version and the report schema")
    parser.set_defaults(json=False)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    _add_runs(commands)
    _add_decisions(commands)
    _add_server(commands)
    _add_alerts(commands)
    _add_offline(commands)
    _add_people(commands)
    return parser


def _add(commands: Commands, name: str, does: str) -> Parser:
    parser = commands.add_parser(name, help=does, description=does[0].upper() + does[1:] + ".")
    parser.add_argument("--json", action="store_true", help="machine-readable output on stdout")
    return parser


def _files(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--fleet", metavar="FILE", help="fleet file (default: this machine, as node `local`)")
    parser.add_argument("--policy", metavar="FILE", help="policy file (default: no action is automatic)")
    parser.add_argument("--out", metavar="DIR", help="folder for reports (default: reports.folder of the fleet file)")


def _add_runs(commands: Commands) -> None:
    nightly = _add(commands, "nightly", "diagnose the whole fleet and write one report")
    _files(nightly)
    nightly.add_argument("--detail", action="store_true", help="show each reading in the Prefect UI, not only each node")
    run = _add(commands, "run", "run one runbook on one target")
    run.add_argument("runbook", metavar="RUNBOOK", help="the runbook; `run --help RUNBOOK` shows its target, options and possible changes")
    run.add_argument("target", metavar="TARGET", help="a node of the fleet file, or user@host[:port] (diagnose only)")
    run.add_argument(
        "--mode", choices=("diagnose", "approve", "auto"), default="diagnose", help="the most this run may do"
    )
    _files(run)
    run.add_argument("--choice", metavar="NAME", help="name of the plan to prefer, if there are several")
    run.add_argument(
        "--option",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="option of the runbook, e.g. symptom='…' (repeatable; @FILE as VALUE reads a file)",
    )
    run.add_argument("--wait", action="store_true", help="wait until a person has decided and the run has ended")
    run.add_argument(
        "--no-server", action="store_true", help="only read, judge and report; needs no server and changes nothing"
    )
    watch = _add(commands, "watch", "watch the fleet file's containers and Ray workers until stopped")
    watch.add_argument(
        "--mode", choices=("diagnose", "approve", "auto"), default="diagnose", help="the most its runs may do"
    )
    _files(watch)
    lab = _add(commands, "lab", "break something real on this machine and show the whole loop")
    lab.add_argument("runbook", metavar="RUNBOOK", nargs="?", help="the rehearsal; without it, all are listed")


def _add_decisions(commands: Commands) -> None:
    for name, does in (("approve", "approve the plan of a waiting run"), ("reject", "reject the plan of a waiting run")):
        decide = _add(commands, name, does)
        decide.add_argument("run", metavar="RUN", help="id or name of the run, as its report shows it")
        decide.add_argument(
            "--who", metavar="NAME", default="", help="your name, for the report (not verified)"
        )
        decide.add_argument("--why", metavar="TEXT", default="", help="your reason, for the report")
        decide.add_argument("--choice", metavar="NAME", default="", help="name of the plan; required if there are several")
        decide.add_argument(
            "--code", metavar="CODE", default="", help="your approver code (default: you are asked if one is needed)"
        )
        decide.add_argument("--wait", action="store_true", help="wait until the run has ended, or asks again")
    show = _add(commands, "show", "print the findings and the question of a run")
    show.add_argument("run", metavar="RUN", help="id or name of the run, as its report shows it")
    show.add_argument("--web", action="store_true", help="print the address of its page instead")
    freeze = _add(commands, "freeze", "stop all actions; diagnosis continues")
    freeze.add_argument("why", metavar="WHY", help="the reason, shown in every report until unfreeze")
    freeze.add_argument(
        "--wait", action="store_true", help="wait until running actions have ended, 600 s at most; exit 1 if they have not"
    )
    _add(commands, "unfreeze", "allow actions again")
    reset = _add(commands, "reset-breaker", "allow actions again after the fleet used up its budget")
    reset.add_argument("--fleet", metavar="FILE", help="fleet file; without one: the default fleet")
    reset.add_argument("--who", metavar="NAME", default="", help="your name, for the record")


def _add_server(commands: Commands) -> None:
    up = _add(commands, "up", "start the local server, worker and reaper, and register the deployments")
    up.add_argument(
        "--fleet", metavar="FILE", help="fleet file for the forms in the UI; kept until you name another"
    )
    up.add_argument("--policy", metavar="FILE", help="policy file for the forms in the UI")
    up.add_argument(
        "--gateway", action="store_true", help="also accept alerts on loopback, for this fleet and policy file"
    )
    up.add_argument("--gateway-port", type=port, default=8765, metavar="N", help="default 8765")
    up.add_argument(
        "--alerts", metavar="FILE", help="alerts file: which alert starts what (default: the included one)"
    )
    down = _add(commands, "down", "wait for running actions, then stop what `up` started")
    down.add_argument("--now", action="store_true", help="do not wait for running actions")
    _add(commands, "status", "show open questions, current problems and running actions")
    login = _add(commands, "login", "print the address and the log-in of the UI, and open a browser if there is one")
    login.add_argument("--no-browser", action="store_true", help="only print it")
    secrets = _add(commands, "secrets", "list the credentials that the fleet file names, and ask for missing ones")
    secrets.add_argument("--fleet", metavar="FILE", help="fleet file")
    secrets.add_argument("--set", metavar="NAME", help="replace this credential: ask for it, or read it from standard input")
    doctor = _add(commands, "doctor", "check that this machine can run runbooks")
    doctor.add_argument("--fleet", metavar="FILE", help="also check this fleet file")
    doctor.add_argument("--policy", metavar="FILE", help="also check this policy file")


def _add_offline(commands: Commands) -> None:
    listed = _add(commands, "list", "list the runbooks, or show options and possible changes of one")
    listed.add_argument("runbook", metavar="RUNBOOK", nargs="?", help="show everything about this runbook")
    listed.add_argument(
        "--actions", action="store_true", help="show every kind of action: runbooks, risk, changes, proof, and how it is undone"
    )
    add_logs(_add(commands, "logs", "read the logs of the orchestrator and its workers, merged by time"))
    replay = _add(commands, "replay", "judge the evidence of an old report again, with today's code")
    replay.add_argument("report", metavar="REPORT.json")
    bundle = _add(
        commands, "bundle", "make a support bundle of one machine: readings, logs, configuration, versions, steps"
    )
    bundle.add_argument("target", metavar="TARGET", help="a node of the fleet file, user@host[:port], or `local`")
    bundle.add_argument("--fleet", metavar="FILE", help="fleet file (default: this machine, as node `local`)")
    bundle.add_argument("--out", metavar="PATH", help="folder or file to write (default: here)")
    bundle.add_argument(
        "--log",
        metavar="FILE",
        action="append",
        default=[],
        help="also include this log file of the machine (repeatable)",
    )
    bundle.add_argument("--seconds", type=seconds, default=180.0, metavar="N", help="maximum reading time (default 180)")
    bundle.add_argument("--progress", action="store_true", help="show progress on stderr even without a terminal")
    fleet = commands.add_parser(
        "fleet", help="check or import a fleet file", description="Check or import a fleet file."
    )
    what = fleet.add_subparsers(dest="fleet_command", metavar="WHAT", required=True)
    check = _add(what, "check", "check a fleet file and show its contents")
    check.add_argument("file", metavar="FILE")
    check.add_argument("--policy", metavar="FILE", help="also check this policy file")
    imported = _add(what, "import", "print a fleet file made from an existing inventory")
    sources = ("list", "etc-hosts", "ssh-config", "hosts", "ansible", "slurm", "kubernetes")
    imported.add_argument(
        "source",
        choices=sources,
        help="list: one user@host:port per line; hosts: a YAML of hosts; ansible: an inventory; slurm: `scontrol show nodes`; "
        "kubernetes: `kubectl get nodes -o json`",
    )
    imported.add_argument("file", metavar="FILE")
    new = _add(commands, "new-runbook", "write the skeleton of a new runbook into this checkout")
    new.add_argument("name", metavar="NAME", help="words of a-z and 0-9 with hyphens, for example read-only-mounts")
    restore = commands.add_parser("restore", add_help=False, help="restore a rendezvous that was cleared (FILE)")
    restore.add_argument("args", nargs=argparse.REMAINDER)
    triage = commands.add_parser("triage", add_help=False, help="find the causes in a log, root cause first (FILE… or -)")
    triage.add_argument("args", nargs=argparse.REMAINDER)


def _add_alerts(commands: Commands) -> None:
    gateway = _add(commands, "gateway", "accept alerts by HTTP and start runbooks for them")
    gateway.add_argument(
        "--alerts", metavar="FILE", help="alerts file: which alert starts what (default: the included one)"
    )
    _files(gateway)
    gateway.add_argument(
        "--host", default="127.0.0.1", help="address to listen on (default 127.0.0.1: this machine only)"
    )
    gateway.add_argument("--port", type=port, default=8765, help="default 8765")
    gateway.add_argument("--tls-cert", metavar="PEM", help="serve HTTPS with this certificate (chain)")
    gateway.add_argument("--tls-key", metavar="PEM", help="private key of that certificate")
    gateway.add_argument(
        "--behind-tls-proxy", action="store_true", help="serve plain HTTP, because a proxy in front terminates TLS"
    )
    gateway.add_argument("--no-auth", action="store_true", help="accept alerts without authentication (loopback only)")
    gateway.add_argument("--at-once", type=within(1, 64, "--at-once"), metavar="N", help="concurrent runs in warm processes (default 4)")
    gateway.add_argument("--no-warm-processes", action="store_true", help="leave every run to the workers")
    alerts = commands.add_parser("alerts", help="test which alert starts what", description="Test the alerts file.")
    what = alerts.add_subparsers(dest="alerts_command", metavar="WHAT", required=True)
    test = _add(what, "test", "show what a payload would start; asks no node, starts nothing")
    test.add_argument("file", metavar="FILE", help="a request body: Alertmanager, Grafana, PagerDuty or generic JSON")
    test.add_argument("--format", dest="source", choices=("alertmanager", "grafana", "pagerduty", "generic"))
    test.add_argument("--alerts", metavar="FILE", help="the alerts file to test (default: the included one)")
    test.add_argument("--fleet", metavar="FILE", help="fleet file, to look up the targets")
    test.add_argument("--policy", metavar="FILE", help="policy file, which limits the mode")


def _add_people(commands: Commands) -> None:
    notify = commands.add_parser("notify", help="test the channels of notifications.yaml", description="Test notifications.")
    what = notify.add_subparsers(dest="notify_command", metavar="WHAT", required=True)
    test = _add(what, "test", "send a test message and show the result per channel")
    test.add_argument("--to", metavar="NAME", help="only this channel (default: all)")
    check = _add(what, "check", "check the file and show who gets what; sends nothing")
    check.add_argument("--label", metavar="NAME=VALUE", action="append", default=[], help="label of the message (repeatable)")
    for sub in (test, check):
        sub.add_argument("--file", metavar="FILE", help="notifications file (default: the one in use)")
    approver = commands.add_parser("approver", help="set up approver codes", description="One-time codes of approvers.")
    how = approver.add_subparsers(dest="approver_command", metavar="WHAT", required=True)
    add = _add(how, "add", "create a secret for a person's authenticator app, and verify a first code")
    add.add_argument("name", metavar="NAME")
    add.add_argument("--replace", action="store_true", help="replace the person's existing secret")
    _add(how, "list", "list the people whose codes this machine checks")
    _add(how, "remove", "delete a person's secret").add_argument("name", metavar="NAME")
