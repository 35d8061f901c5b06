"""Reads the kernel log's lines about GPUs on a node, since boot: `dmesg`, else `journalctl -k -b`."""

from typing import Any

from runbooks.core.reading import Known, Source, Unknown, UnknownReason
from runbooks.gpu.evidence import KernelEvent
from runbooks.gpu.parsers.kernel_log import KernelLine, failures_in_words, parse_kernel_log
from tasks.context import Context
from tasks.diagnostic import diagnostic
from tasks.remote.probe import redact, run_probe, source, unknown
from tasks.transport.base import TransportError

Events = tuple[KernelEvent, ...]
COMMAND = "dmesg | grep -iE 'nvrm|xid|nvidia'"
REACHES_BACK_S = 60.0  # a ring buffer whose first line is later than this has lost the boot


@diagnostic("kernel log · {context.target}")
def read_kernel_log(context: Context) -> tuple[Known[Events] | Unknown, Known[tuple[str, ...]] | Unknown]:
    """GPU faults in the kernel log since boot: those with an Xid, and lines in words. Denied, timed out and missing tools stay apart."""
    try:
        got = run_probe(context.host, "kernel", {"match": "nvrm|xid|nvidia", "cap": 2000}, timeout_s=25)
    except TransportError as e:
        unread = unknown(context, e, COMMAND)
        return unread, unread
    if not got["tool"]:
        unread = _no_log(got, source(context, COMMAND))
        return unread, unread
    text = redact(context, "\n".join(got["lines"]))
    lines = parse_kernel_log(text)
    note = _note(got["begins"])
    at = source(context, COMMAND.replace("dmesg", _command(got["tool"])), note + "\n".join(x.text for x in lines[-20:]))
    words = Known[tuple[str, ...]](value=failures_in_words(text), source=at)
    return Known[Events](value=tuple(_event(x) for x in lines), source=at), words


def _command(tool: str) -> str:
    return "dmesg" if tool == "dmesg" else "journalctl -k -b -o short-monotonic --no-pager"


def _note(begins: float | None) -> str:
    if begins is None or begins < REACHES_BACK_S:
        return ""
    return f"(the log begins {begins:.0f} s after boot: what came before is lost)\n"


def _no_log(got: dict[str, Any], at: Source) -> Unknown:
    tried = "; ".join(f"{t['tool']}: {t['said'] or 'no lines'} (exit {t['exit']})" for t in got["tried"])
    exits = {t["exit"] for t in got["tried"]}
    missing = UnknownReason.TOOL_MISSING if exits == {127} else UnknownReason.TIMED_OUT if exits <= {124, 127} else UnknownReason.FAILED
    return Unknown(reason=UnknownReason.DENIED if got["denied"] else missing, detail=tried, source=at)


def _event(line: KernelLine) -> KernelEvent:
    return KernelEvent(
        at_s=line.at_s, text=line.text, xid=line.xid, bus_id=line.bus_id, pid=line.pid, process=line.process
    )
