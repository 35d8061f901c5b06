"""Kernel log lines about a GPU: Xids, "fallen off the bus", what Xid 154 asks for. Seconds since boot.

A parser, because these lines have a form of their own (bus id, number, pid); what a number means stands in
runbooks/knowledge/xids.yaml, which triage reads as well.
"""

import re

from runbooks.core.base import Frozen

_STAMP = re.compile(r"^(?:<\d+>)?\[\s*(\d+\.\d+)\]\s*")
_ANY_STAMP = re.compile(r"^.*?(?=NVRM:)")
_XID = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9A-Fa-f:.]+)\): (\d+)(?:, )?(.*)$")
_PID = re.compile(r"\bpid='?(\d+)'?")
_NAME = re.compile(r"\bname=([^,\s]+)")
_OFF_BUS = re.compile(r"NVRM:.*fallen off the bus")
_BUS = re.compile(r"([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}(?:\.\d)?)")
_NVLINK5 = re.compile(
    r"^(\w+)\s+(Fatal|Non-?fatal)\s+XC(\d+)\s+i(\d+)\s+Link\s+(-?\d+)\s*(?:\(([^)]*)\))?", re.IGNORECASE
)
_ACTION = re.compile(r"recovery action changed from .*?\([^)]*\) to .*?\(([^)]*)\)", re.IGNORECASE)
_CODE = re.compile(r"recovery action changed from .*? to 0x([0-9a-f]+)\b", re.IGNORECASE)
_ACTION_SHORT = re.compile(r"(Node Reboot Required|GPU Reset Required|Drain and Reset|Drain P2P|None)", re.I)


class NvLink(Frozen):
    """The extra words of the NVLink5 Xids 144-150."""

    unit: str  # SAW, RLW, TLW, TREX, NVLPW, NETIR, MSE
    fatal: bool
    cross_contained: bool
    injected: bool
    link: int  # -1: no one link
    words: tuple[str, ...]  # intrinfo, errorStatus …, as printed


class KernelLine(Frozen):
    """One line about a GPU."""

    at_s: float | None
    text: str  # without the time stamp
    xid: int | None = None  # 79 too where the line says "fallen off the bus" without a number
    bus_id: str = ""  # "0000:06:00.0" as far as the line gives it
    pid: int | None = None
    process: str = ""
    action: str = ""  # Xid 154 only: "Node Reboot Required"
    nvlink: NvLink | None = None


def parse_kernel_log(text: str) -> tuple[KernelLine, ...]:
    """Every line that names a GPU fault, in order of the log. Notices and other drivers are left out."""
    found = (_line(x) for x in text.splitlines())
    return tuple(x for x in found if x is not None)


def failures_in_words(text: str) -> tuple[str, ...]:
    """Lines without a number that report a fault which the knowledge base knows (NVSwitch, start of the driver), the first of each.

    Without those that call themselves Nonfatal. Of the others a driver prints many, also on a machine that is well."""
    from runbooks.triage.text import failures

    plain = [line for line in text.splitlines() if _line(line) is None and not says_nonfatal(line)]
    return tuple(line.strip() for slug, line in failures("\n".join(plain))[0] if slug)


def bus_in(line: str) -> str:
    """The GPU or switch that a line names, as `bus_key` gives it; "" if none."""
    found = _BUS.search(line)
    return bus_key(found[1]) if found else ""


def bus_key(bus_id: str) -> str:
    """`00000000:06:00.0`, `0000:06:00` and `PCI:0000:06:00` as one key: domain, bus, device in lower case."""
    parts = bus_id.lower().removeprefix("pci:").split(".")[0].split(":")
    if len(parts) != 3:
        return ""
    return f"{parts[0][-4:].zfill(4)}:{parts[1]}:{parts[2]}"


def recovery_action(text: str) -> str:
    """What Xid 154 asks for now, in its own words; "" where the text is of another kind."""
    found = _ACTION.search(text) or _ACTION_SHORT.search(text)
    return found.group(1) if found else ""


def recovery_code(text: str) -> int | None:
    """The number of what Xid 154 asks for now; its words differ between drivers."""
    found = _CODE.search(text)
    return int(found[1], 16) if found else None


def _line(raw: str) -> KernelLine | None:
    stamp = _STAMP.match(raw)
    at_s = float(stamp.group(1)) if stamp else None
    text = raw[stamp.end() :] if stamp else _ANY_STAMP.sub("", raw.strip())
    xid = _XID.search(text)
    if xid:
        return _xid_line(xid, at_s, text.strip())
    if _OFF_BUS.search(text):
        bus = _BUS.search(text)
        return KernelLine(at_s=at_s, text=text.strip(), xid=79, bus_id=bus.group(1) if bus else "")
    return None


def _xid_line(m: "re.Match[str]", at_s: float | None, text: str) -> KernelLine:
    number, rest = int(m.group(2)), m.group(3)
    pid, name = _PID.search(rest), _NAME.search(rest)
    return KernelLine(
        at_s=at_s,
        text=text,
        xid=number,
        bus_id=m.group(1),
        pid=int(pid.group(1)) if pid else None,
        process=name.group(1) if name and "<" not in name.group(1) else "",
        action=recovery_action(text) if number == 154 else "",
        nvlink=_nvlink(rest) if 144 <= number <= 150 else None,
    )


def says_nonfatal(text: str) -> bool:
    """Whether an NVLink line calls itself Nonfatal (or Non-fatal)."""
    return "nonfatal" in text.lower().replace("-", "")


def _nvlink(rest: str) -> NvLink | None:
    body = re.sub(r"^(?:pid='?[^,]*'?, )?(?:name=[^,]*, )?", "", rest)
    m = _NVLINK5.search(body)
    if m is None:
        return None
    words = tuple((m.group(6) or "").split())
    fatal = m.group(2).lower() == "fatal"
    return NvLink(
        unit=m.group(1),
        fatal=fatal,
        cross_contained=m.group(3) != "0",
        injected=m.group(4) != "0",
        link=int(m.group(5)),
        words=words,
    )
