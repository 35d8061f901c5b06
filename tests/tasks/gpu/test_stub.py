"""The stand-in nvidia-smi against recordings of the real one (H100, driver 580)."""

import subprocess
import sys
from pathlib import Path

import pytest

from deployments.lab.gpu import StubDriver, holding
from deployments.lab.gpu_state import StubGpu
from tests.support.gpu_node import running

DATA = Path(__file__).parents[2] / "data" / "h100"
QUERY = (
    "--query-gpu=index,uuid,name,utilization.gpu,utilization.memory,memory.used,memory.total,temperature.gpu,power.draw,"
    "pstate,ecc.errors.uncorrected.volatile.total,clocks_event_reasons.active"
)


def recorded(name: str) -> str:
    """A recording without its two head lines."""
    return "\n".join((DATA / name).read_text().splitlines()[2:]) + "\n"


@pytest.mark.parametrize("name", ["idle", "hold-stopped", "duty", "devspin", "orphan"])
def test_the_fake_tool_prints_what_the_real_one_printed(driver: StubDriver, name: str) -> None:
    def said(*args: str) -> str:
        done = subprocess.run([str(driver.smi), *args], capture_output=True, text=True, check=True)
        return done.stdout.replace(f" {p.pid:>6} ", f" {pid:>6} ").replace(f" {p.pid},", f" {pid},")

    row = recorded(f"gpu-{name}.txt").splitlines()[1].split(", ")
    apps = recorded(f"apps-{name}.txt").splitlines()[1:]
    pid, mib = (int(apps[0].split(", ")[1]), int(apps[0].split(", ")[3].split()[0])) if apps else (0, 0)
    sm = recorded(f"pmon-{name}.txt").splitlines()[2].split()[3]
    program = sys.executable
    with running("sleep") as p:
        gpu = holding(p.pid, mib, 0 if sm == "-" else int(sm)) if apps else StubGpu()
        milliwatt = str(round(float(row[8].split()[0]) * 1000))
        gpu.keys.update(temperature=row[7], power_mw=milliwatt, idle_power_mw=milliwatt)
        series = "0" if row[3] == "0 %" else row[3].split()[0]
        gpu.keys.update(sm=series)
        driver.show(gpu)
        assert said(QUERY, "--format=csv") == recorded(f"gpu-{name}.txt")
        name_of = Path(program).name
        listed = said("--query-compute-apps=gpu_uuid,pid,process_name,used_memory", "--format=csv")
        assert listed.replace(program, "/opt/venv/bin/python3") == recorded(f"apps-{name}.txt")
        samples = said("pmon", "-c", "2", "-s", "um")
        assert samples.replace(f"{name_of:<15}", f"{'python3':<15}") == recorded(f"pmon-{name}.txt")
        table = said().splitlines()[1:]
        real = recorded(f"smi-{name}.txt").splitlines()[1:]
        ours = [line for line in table if program[:20] not in line and f" {pid} " not in line]
        assert ours == [line for line in real if f" {pid} " not in line]
