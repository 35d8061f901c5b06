"""Resetting a GPU: every refusal, and a reset that the (stub) driver does."""

from pathlib import Path
from typing import Any

import pytest

from deployments.lab.gpu import StubDriver, holding
from deployments.lab.gpu_state import H100, HeldMemory, StubGpu, StubState, read_state
from runbooks.core.plan import Step
from runbooks.core.refusal import RefusalCode
from tasks.context import ActionRefused
from tasks.gpu.act_reset import reset_gpu
from tests.support.gpu_node import BOOT, context, running
from tests.support.racing import before_call
from tests.support.sent import Sent


def step(**change: Any) -> Step:
    """A reset of the stub's GPU."""
    args = {"uuid": H100["uuid"], "bus_id": H100["bus_id"], "boot_id": BOOT} | change
    return Step(kind="reset-gpu", owner="node-a", args=args, commands=("nvidia-smi --gpu-reset",), effect="answers")


@pytest.mark.parametrize("mode", ["ok", "lost"])
def test_a_free_gpu_is_reset(driver: StubDriver, mode: str) -> None:
    driver.show(StubGpu(keys={**H100, "latched": "1", "mode": mode}))
    (said,) = reset_gpu(step(), context(driver)).said
    assert "successfully reset" in said
    assert read_state(driver.state).gpus[0].keys["latched"] == "0"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"boot_id": "x"}, "was booted since"),
        ({"uuid": "GPU-other"}, "no GPU GPU-other here"),
        ({"bus_id": "00000000:99:00.0"}, "is at bus"),
    ],
)
def test_another_identity_is_refused(driver: StubDriver, change: dict[str, str], words: str) -> None:
    driver.show(StubGpu(keys={**H100, "latched": "1"}))
    with pytest.raises(ActionRefused, match=words):
        reset_gpu(step(**change), context(driver))
    assert read_state(driver.state).gpus[0].keys["latched"] == "1"


def test_a_client_is_named(driver: StubDriver) -> None:
    with running("sleep") as p:
        driver.show(holding(p.pid))
        with pytest.raises(ActionRefused, match=rf"in use: pid {p.pid} \(.*\) by the driver's list"):
            reset_gpu(step(), context(driver))


def test_a_client_that_only_the_driver_knows_of(driver: StubDriver) -> None:
    with running("sleep") as p:
        driver.show(holding(p.pid, flag="hidden"))
        with pytest.raises(ActionRefused, match="in use by another process"):
            reset_gpu(step(), context(driver))


CALLS = 3  # what the probe asks of nvidia-smi: which GPU it is, who uses it, the reset


@pytest.mark.parametrize(
    ("mode", "flag", "at"),
    [(mode, flag, at) for mode, flag in [("ok", "-"), ("ok", "hidden"), ("lost", "hidden")] for at in range(1, CALLS + 1)]
    + [("lost", "hidden", CALLS + 1)],
)
def test_a_process_that_opens_it_before_every_step_stops_the_reset(
    driver: StubDriver, mode: str, flag: str, at: int
) -> None:
    """Between the look and the reset as well. `hidden`: the look cannot see it, as from another PID namespace."""
    gpu = {**H100, "latched": "1", "mode": mode}
    with running("sleep") as p:
        driver.show(StubGpu(keys=gpu))
        asked = before_call(driver, at, StubState(gpus=[StubGpu(keys=gpu, processes=[HeldMemory(p.pid, 1 << 30, flag=flag)])]))
        if at <= CALLS:
            with pytest.raises(ActionRefused, match="in use") as e:
                reset_gpu(step(), context(driver))
            assert e.value.code is RefusalCode.IN_USE
        else:  # nobody came between
            reset_gpu(step(), context(driver))
    seen = flag == "-" and at < CALLS
    assert len(asked.read_text().splitlines()) == (CALLS - 1 if seen else CALLS)
    assert read_state(driver.state).gpus[0].keys["latched"] == ("1" if at <= CALLS else "0")


def test_mig_is_refused(driver: StubDriver) -> None:
    driver.show(StubGpu(keys={**H100, "mig": "1"}))
    with pytest.raises(ActionRefused, match="MIG"):
        reset_gpu(step(), context(driver))


def test_no_tool_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ActionRefused, match="nvidia-smi"):
        reset_gpu(step(), context(None))


@pytest.mark.parametrize(
    ("inside", "uid", "words"), [("container=docker", 0, "on its machine"), ("", 1000, "not root")]
)
def test_inside_a_container_or_without_root(inside: str, uid: int, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    space = Sent("reset_gpu")
    space["in_container"] = lambda: inside
    monkeypatch.setattr("os.geteuid", lambda: uid)
    found = space["main"]({**step().args, "smi": "/bin/false", "timeout_s": 5})
    assert words in found["refused"]
