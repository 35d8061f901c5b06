"""A stand-in `nvidia-smi` over the stub's state file, byte for byte as driver 580 prints (held to recordings by tests).

python3 nvidia_smi.py STATE ARGS…: --query-gpu=…, --query-compute-apps=… (with --format=csv), pmon -c N -s um, -q -x,
-L, --gpu-reset -i UUID, and the plain table.
"""

import sys
import time
from pathlib import Path
from typing import NoReturn

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from deployments.lab.gpu_state import HeldMemory, StubGpu, StubState, next_step, read_state

MIB = 1 << 20
UNITS = {
    "utilization.gpu": "%", "utilization.memory": "%", "memory.used": "MiB", "memory.total": "MiB",
    "memory.reserved": "MiB", "power.draw": "W", "power.limit": "W", "clocks.current.sm": "MHz", "clocks.max.sm": "MHz",
}  # fmt: skip
SHOWN_AS = {"clocks.sm": "clocks.current.sm"}
NO_DRIVER = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
    "Make sure that the latest NVIDIA driver is installed and running.\n"
)
IN_USE = (
    "GPU {bus} is currently in use by another process.\n\n1 device is currently being used by one or more other "
    "processes (e.g., Fabric Manager, CUDA application, graphics application such as an X server, or a monitoring "
    "application such as another instance of nvidia-smi). Please first kill all processes using this device and all "
    "compute applications running in the system.\n"
)
RULE = "+-----------------------------------------+------------------------+----------------------+"
WIDE = "+-----------------------------------------------------------------------------------------+"


def mib(size: int) -> int:
    """Bytes as whole MiB, rounded as nvidia-smi does."""
    return round(size / MIB)


def name_of(pid: int) -> str:
    """Program of a process as the driver names it."""
    try:
        raw = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0]
        return raw.decode("utf-8", "replace") or "[Not Found]"
    except OSError:
        return "[Not Found]"


def percent(path: Path, index: int, gpu: StubGpu, step: bool = True) -> int:
    """utilization.gpu: the next of the series while something runs."""
    series = [int(x) for x in gpu.keys["sm"].split(",")]
    if not gpu.held and gpu.keys["latched"] != "1":
        return 0
    return series[next_step(path, index, len(series))] if step else series[0]


def fields(path: Path, index: int, gpu: StubGpu, state: StubState) -> dict[str, str]:
    """Every field of --query-gpu that the project asks for."""
    busy = bool(gpu.held) or gpu.keys["latched"] == "1"
    sm = percent(path, index, gpu)
    reasons = gpu.number("reasons") | (0 if gpu.held else 1)
    return {
        "index": str(index), "uuid": gpu.keys["uuid"], "name": gpu.keys["name"], "pci.bus_id": gpu.keys["bus_id"],
        "utilization.gpu": str(sm), "utilization.memory": gpu.keys["memory_percent"] if busy else "0",
        "memory.used": str(mib(gpu.used)), "memory.total": str(mib(gpu.number("total"))),
        "memory.reserved": str(mib(gpu.number("reserved"))), "temperature.gpu": gpu.keys["temperature"],
        "power.draw": f"{gpu.number('power_mw' if busy else 'idle_power_mw') / 1000:.2f}",
        "power.limit": f"{gpu.number('power_limit_mw') / 1000:.2f}", "pstate": f"P{gpu.keys['pstate']}",
        "clocks.current.sm": gpu.keys["clock"], "clocks.max.sm": gpu.keys["clock_max"],
        "ecc.errors.uncorrected.volatile.total": gpu.keys["ecc_uncorrected"],
        "ecc.errors.corrected.volatile.total": gpu.keys["ecc_corrected"],
        "mig.mode.current": "Enabled" if gpu.keys["mig"] == "1" else "Disabled",
        "compute_mode": ("Default", "Exclusive_Thread", "Prohibited", "Exclusive_Process")[gpu.number("compute")],
        "clocks_event_reasons.active": f"0x{reasons:016x}", "driver_version": state.version,
    }  # fmt: skip


def query_gpu(path: Path, state: StubState, names: list[str]) -> str:
    """The CSV of --query-gpu."""
    shown = [SHOWN_AS.get(n, n) for n in names]
    known = {*UNITS, *fields(path, 0, StubGpu(), state)}
    for name in shown:
        if name not in known:
            sys.stdout.write(f'Field "{name}" is not a valid field to query.\n\n')
            raise SystemExit(2)
    lines = [", ".join(f"{n} [{UNITS[n]}]" if n in UNITS else n for n in shown)]
    for i, gpu in enumerate(state.gpus):
        row = fields(path, i, gpu, state)
        lines.append(", ".join(f"{row[n]} {UNITS[n]}" if n in UNITS else row[n] for n in shown))
    return "\n".join(lines) + "\n"


def listed(gpu: StubGpu) -> list[HeldMemory]:
    """Processes that the driver lists."""
    return [p for p in gpu.held if p.flag != "hidden"]


def query_apps(state: StubState) -> str:
    """The CSV of --query-compute-apps=gpu_uuid,pid,process_name,used_memory."""
    lines = ["gpu_uuid, pid, process_name, used_gpu_memory [MiB]"]
    rows = [(g.keys["uuid"], p) for g in state.gpus for p in listed(g) if p.kind == "C"]
    lines += [f"{uuid}, {p.pid}, {name_of(p.pid)}, {mib(p.bytes)} MiB" for uuid, p in rows]
    return "\n".join(lines) + "\n"


def pmon(state: StubState, times: int) -> str:
    """`pmon -s um`: one line per process, or one of dashes, each time."""
    lines = [
        "# gpu         pid   type     sm    mem    enc    dec    jpg    ofa     fb   ccpm    command ",
        "# Idx           #    C/G      %      %      %      %      %      %     MB     MB    name ",
    ]
    for _ in range(times):
        for i, gpu in enumerate(state.gpus):
            dashes = "-      -      -      -"
            rows = [
                f"{i:5} {p.pid:10} {p.kind:>5} {p.sm:6} {0:6}      {dashes} {mib(p.bytes):6} {0:6}    "
                f"{Path(name_of(p.pid)).name[:15]:<15}"
                for p in listed(gpu)
            ]
            lines += rows or [
                f"{i:5} {'-':>10} {'-':>5} {'-':>6} {'-':>6}      {dashes} {'-':>6} {'-':>6}    {'-':<15}"
            ]
    return "\n".join(lines) + "\n"


def table(path: Path, state: StubState) -> str:
    """What `nvidia-smi` prints without arguments."""
    cuda = f"{state.cuda // 1000}.{state.cuda % 1000 // 10}"
    v = state.version
    lines = [time.strftime("%a %b %e %H:%M:%S %Y       "), WIDE,
             f"| NVIDIA-SMI {v:<22} Driver Version: {v:<14} CUDA Version: {cuda:<8} |", RULE,
             "| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |",
             "| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |",
             "|                                         |                        |               MIG M. |",
             "|=========================================+========================+======================|"]  # fmt: skip
    for i, gpu in enumerate(state.gpus):
        row = fields(path, i, gpu, state)
        watts = f"{int(float(row['power.draw'])):>10}W / {int(float(row['power.limit'])):>4}W"
        ecc = row["ecc.errors.uncorrected.volatile.total"]
        used = f"{row['memory.used']:>7}MiB / {row['memory.total']:>6}MiB"
        lines += [f"|{i:4}  {row['name']:<30} On  |   {row['pci.bus_id']} Off |{ecc:>21} |",
                  f"| N/A {row['temperature.gpu']:>4}C {row['pstate']:>5}   {watts:>21} | {used} |"
                  f"{row['utilization.gpu']:>7}% {row['compute_mode']:>12} |",
                  f"|{'':41}|{'':24}|{row['mig.mode.current']:>21} |", RULE]  # fmt: skip
    lines += ["", WIDE, f"| {'Processes:':<88}|",
              f"| {' GPU   GI   CI              PID   Type   Process name':<77}GPU Memory |",
              f"| {'       ID   ID':<77}{'Usage':<10} |", f"|{'=' * 89}|"]  # fmt: skip
    rows = [(i, p) for i, g in enumerate(state.gpus) for p in listed(g)]
    lines += [
        f"|{i:5}   N/A  N/A {p.pid:15} {p.kind:>6}   {name_of(p.pid):<30.30} {mib(p.bytes):>15}MiB |" for i, p in rows
    ]
    lines += [] if rows else [f"|  {'No running processes found':<87}|"]
    return "\n".join([*lines, WIDE]) + "\n"


def xml(path: Path, state: StubState) -> str:
    """The part of `-q -x` that is read."""

    def one(i: int, gpu: StubGpu) -> str:
        r, remap = fields(path, i, gpu, state), gpu.keys["remap"].split(",")
        action = ("None", "Reset", "Reboot", "Drain P2P", "Drain and Reset")[gpu.number("recovery")]
        yes = ["Yes" if x != "0" else "No" for x in remap[2:]]
        return (
            f'\t<gpu id="{r["pci.bus_id"]}">\n\t\t<product_name>{r["name"]}</product_name>\n'
            f"\t\t<uuid>{r['uuid']}</uuid>\n"
            f"\t\t<gpu_recovery_action>{action}</gpu_recovery_action>\n\t\t<remapped_rows>\n"
            f"\t\t\t<remapped_row_corr>{remap[0]}</remapped_row_corr>\n\t\t\t<remapped_row_unc>{remap[1]}</remapped_row_unc>\n"
            f"\t\t\t<remapped_row_pending>{yes[0]}</remapped_row_pending>\n"
            f"\t\t\t<remapped_row_failure>{yes[1]}</remapped_row_failure>\n\t\t</remapped_rows>\n\t</gpu>\n"
        )

    body = "".join(one(i, g) for i, g in enumerate(state.gpus))
    return (
        '<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v13.dtd">\n<nvidia_smi_log>\n'
        f"\t<driver_version>{state.version}</driver_version>\n\t<cuda_version>"
        f"{state.cuda // 1000}.{state.cuda % 1000 // 10}</cuda_version>\n"
        f"\t<attached_gpus>{len(state.gpus)}</attached_gpus>\n{body}</nvidia_smi_log>\n"
    )


def reset(path: Path, state: StubState, uuid: str) -> str:
    """--gpu-reset: refused while a process holds the GPU; heals a latched counter and a lost GPU."""
    gpu = next((g for g in state.gpus if g.keys["uuid"] == uuid), None)
    if gpu is None:
        fail("No devices were found\n", 6)
    if gpu.held:
        fail(IN_USE.format(bus=gpu.keys["bus_id"]), 255)
    gpu.keys.update(latched="0", mode="ok", recovery="0")
    state.write(path)
    return f"GPU {gpu.keys['bus_id']} was successfully reset.\nAll done.\n"


def main(path: Path, args: list[str]) -> str:
    """Answer one call."""
    state = read_state(path)
    while state.mode == "hang":
        time.sleep(3600)
    if state.mode != "ok":
        fail(NO_DRIVER, 9) if state.mode == "no-driver" else fail("Failed to initialize NVML: Unknown Error\n", 255)
    if "--gpu-reset" in args:
        return reset(path, state, args[args.index("-i") + 1])
    for gpu in state.gpus:
        if gpu.keys["mode"] != "ok":
            words = {"lost": "GPU is lost.  Reboot the system to recover this GPU"}.get(
                gpu.keys["mode"], "Unknown Error"
            )
            fail(f"Unable to determine the device handle for GPU{gpu.keys['bus_id'][4:]}: {words}\n", 15)
    if not state.gpus:
        fail("No devices were found\n", 6)
    return answer(path, state, args)


def answer(path: Path, state: StubState, args: list[str]) -> str:
    """The output of a call to a driver that works."""
    first = args[0] if args else ""
    if first.startswith("--query-gpu="):
        return query_gpu(path, state, first.split("=", 1)[1].split(","))
    if first.startswith("--query-compute-apps="):
        return query_apps(state)
    if first == "pmon":
        return pmon(state, int(args[args.index("-c") + 1]))
    if args == ["-q", "-x"]:
        return xml(path, state)
    if first == "-L":
        return "".join(f"GPU {i}: {g.keys['name']} (UUID: {g.keys['uuid']})\n" for i, g in enumerate(state.gpus))
    return table(path, state)


def fail(words: str, code: int) -> NoReturn:
    """Say it and end."""
    sys.stdout.write(words)
    raise SystemExit(code)


if __name__ == "__main__":
    sys.stdout.write(main(Path(sys.argv[1]), sys.argv[2:]))
