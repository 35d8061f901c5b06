"""The line of twins: a card that is busy for nobody, a card of another model, a dead process that keeps memory. The stub driver is read."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from deployments.lab.gpu import StubDriver, holding
from deployments.lab.gpu_state import StubGpu
from runbooks.core.verdict import Certainty, Diagnosis, State
from tests.incidents.test_group import SHORT
from tests.runbooks.gpu.build import judge
from tests.support.gpu_fixtures import built, driver  # noqa: F401 - fixtures
from tests.support.gpu_node import context, gather

ROUTES = pytest.mark.parametrize("local", [True, False], ids=["nvml", "nvidia-smi"])
BUSY = "100,100,100,100,100"


def empty(**keys: str) -> StubGpu:
    """A card with nobody on it."""
    gpu = StubGpu()
    gpu.keys.update({"sm": BUSY, "latched": "1", **keys})
    return gpu


def first(d: Diagnosis) -> tuple[State, str, Certainty]:
    return d.state, d.causes[0].slug, d.causes[0].certainty


@ROUTES
@pytest.mark.incident("twin-busy-for-nobody", came="right", fed="readers", known=True)
def test_busy_at_480_w_without_a_process_is_not_healthy(driver: StubDriver, local: bool) -> None:  # noqa: F811
    driver.show(empty(power_mw="480000", idle_power_mw="480000"))
    d = judge(gather(context(driver, local=local)))
    assert d.causes[0].slug == "busy-without-holder"
    assert d.state in (State.UNHEALTHY, State.CANNOT_TELL)
    assert "480 W, more than a card at rest takes" in " ".join(d.causes[0].evidence)


@ROUTES
@pytest.mark.incident("twin-idle-b200", came="right", fed="readers", known=True)
def test_a_b200_at_185_w_is_at_rest(driver: StubDriver, local: bool) -> None:  # noqa: F811
    driver.show(empty(name="NVIDIA B200", power_mw="185000", idle_power_mw="185000"))
    d = judge(gather(context(driver, local=local)))
    assert d.causes[0].slug == "latched-counter"
    assert "that of an idle card (at most 215 W)" in " ".join(d.causes[0].evidence)


@pytest.mark.incident("twin-idle-b200", came="right", fed="readers", known=True, twin="the same watts on a V100")
def test_185_w_are_work_on_a_v100(driver: StubDriver) -> None:  # noqa: F811
    driver.show(empty(name="Tesla V100-SXM2-32GB", power_mw="185000", idle_power_mw="185000"))
    assert judge(gather(context(driver))).causes[0].slug == "busy-without-holder"


@pytest.mark.incident("twin-idle-b200", came="open", fed="readers", known=True, twin="a card of which no rest is known")
def test_an_unknown_card_has_no_limit(driver: StubDriver) -> None:  # noqa: F811
    driver.show(empty(name="NVIDIA X900", power_mw="185000", idle_power_mw="185000"))
    d = judge(gather(context(driver)))
    assert first(d) == (State.CANNOT_TELL, "latched-counter", Certainty.POSSIBLE)
    assert "not known for this card" in " ".join(d.causes[0].evidence)


@contextmanager
def unreaped() -> Iterator[int]:
    """A defunct process whose parent does not look after it."""
    text = "import os, time\npid = os.fork()\nos._exit(0) if pid == 0 else None\nprint(pid, flush=True)\ntime.sleep(60)"
    p = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True)
    assert p.stdout is not None
    pid = int(p.stdout.readline())
    try:
        time.sleep(0.3)
        yield pid
    finally:
        os.kill(p.pid, signal.SIGKILL)
        p.wait(10)


@pytest.mark.incident("twin-defunct-memory", came="right", fed="readers", known=True)
def test_a_defunct_process_that_the_driver_lists_keeps_its_memory(driver: StubDriver) -> None:  # noqa: F811
    with unreaped() as pid:
        driver.show(holding(pid, mib=5427, flag="foreign"))  # "foreign": the stub goes on listing a dead one
        ctx = context(driver)
        before = gather(ctx)
        once = judge(before)
        time.sleep(1.2)
        again = gather(context(driver, earlier={"id": "r-1", "evidence": before.model_dump(mode="json")}))
        later = judge(again, **SHORT, vanish_s=1.0)
    assert first(once) == (State.UNHEALTHY, "defunct-keeps-memory", Certainty.LIKELY)
    assert first(later) == (State.UNHEALTHY, "defunct-keeps-memory", Certainty.CONFIRMED)
    words = " ".join(later.causes[0].evidence)
    assert "the driver still lists it with 5.3 GiB of GPU 0's memory" in words
    assert "holds no memory" not in words
    assert later.plans == ()


@pytest.mark.incident("twin-defunct-memory", came="right", fed="readers", known=True, twin="its memory was freed")
def test_a_defunct_process_without_memory(driver: StubDriver) -> None:  # noqa: F811
    with unreaped() as pid:
        driver.show(holding(pid, mib=5427))
        d = judge(gather(context(driver)))
    assert d.state is State.HEALTHY
    assert "defunct-keeps-memory" not in [c.slug for c in d.causes]
