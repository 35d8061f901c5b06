"""GPUs by NVML and by nvidia-smi, over the stub: both routes, the recordings, and every way to have no answer."""

import time

import pytest

from deployments.lab.gpu import StubDriver, holding
from deployments.lab.gpu_state import H100, HeldMemory, StubGpu
from runbooks.core.gpu_set import GpuSet
from runbooks.core.reading import Absent, Known, Unknown, UnknownReason
from tasks.context import Context
from tasks.remote.gpus import Presence, read_gpus, read_presence, without_reader
from tests.support.gpu_node import context, gather, only_gpu, running, wait_state

DUTY = "0,3,1,0,0,0,1,0,0,0,1,0,0,0,1,0,0,0,1,0,0,0,1,0"  # recorded: a job that works
ROUTES = pytest.mark.parametrize("local", [True, False], ids=["nvml", "nvidia-smi"])

DUTY = "0,3,1,0,0,0,1,0,0,0,1,0,0,0,1,0,0,0,1,0,0,0,1,0"  # recorded: a job that works


def read(ctx: Context, samples: int = 4, window_s: float = 0.3) -> Known[GpuSet] | Absent | Unknown:
    """Presence, then the GPUs."""
    presence = read_presence(ctx)
    assert isinstance(presence, Presence)
    return read_gpus(ctx, presence, window_s, samples)


@ROUTES
def test_both_routes_fill_the_same_type(driver: StubDriver, local: bool) -> None:
    with running("sleep", stopped=True) as p:
        driver.show(holding(p.pid, own_sm=1, remap="1,0,1,0", recovery="1"))
        gpu = only_gpu(gather(context(driver, local=local)))
    assert (gpu.uuid, gpu.name, gpu.bus_id) == (H100["uuid"], H100["name"], H100["bus_id"])
    assert abs(gpu.memory_used_bytes - (8719 << 20)) < 1 << 20  # recorded: 8719 MiB; the reserve is not in it
    assert abs((gpu.memory_reserved_bytes or 0) - (480 << 20)) < 1 << 20
    assert [s.sm_percent for s in gpu.samples] == [0, 0, 0, 0]
    assert gpu.samples[-1].at_s >= 0.5
    assert gpu.samples[0].power_w == pytest.approx(136.48)
    assert isinstance(gpu.processes, Known)
    (held,) = gpu.processes.value
    assert (held.pid, held.used_bytes, held.kind) == (p.pid, 8710 << 20, "C")
    assert set(held.sm_percent) == {1.0}
    assert (gpu.pstate, gpu.temperature_c, gpu.compute_mode, gpu.mig) == ("P0", 49, "Default", False)
    assert gpu.remap is not None
    assert (gpu.remap.correctable, gpu.remap.pending, gpu.remap.failed) == (1, True, False)
    assert (gpu.recovery_action, gpu.power_limit_w, gpu.sm_clock_max_mhz) == ("Reset", 700, 1980)


@ROUTES
def test_the_recorded_duty_series_is_read_as_a_window(driver: StubDriver, local: bool) -> None:
    with running("sleep") as p:
        driver.show(holding(p.pid, mib=9194, sm=DUTY))
        found = read(context(driver, local=local), samples=24, window_s=0.4)
    assert isinstance(found, Known)
    seen = [int(s.sm_percent) for s in found.value.gpus[0].samples]
    assert seen == [int(x) for x in DUTY.split(",")]
    assert sum(s == 0 for s in seen) == 17


@ROUTES
def test_memory_goes_with_its_process_before_it_is_reaped(driver: StubDriver, local: bool) -> None:
    with running("sleep") as p:
        driver.show(holding(p.pid))
        p.kill()
        wait_state(p.pid, "Z")
        found = read(context(driver, local=local), samples=1, window_s=0)
    assert isinstance(found, Known)
    gpu = found.value.gpus[0]
    assert gpu.memory_used_bytes == 0
    assert gpu.processes == Known(value=())
    assert gpu.throttle == ("gpu_idle",)


@ROUTES
def test_a_lost_gpu_is_an_error_in_the_drivers_words(driver: StubDriver, local: bool) -> None:
    driver.show(holding(1, mode="lost"))
    found = read(context(driver, local=local))
    assert isinstance(found, Known)
    (error,) = found.value.errors
    assert "GPU is lost" in error.error
    assert found.value.gpus == ()


@ROUTES
def test_unknown_error_of_one_gpu(driver: StubDriver, local: bool) -> None:
    driver.show(holding(1, mode="unknown"))
    found = read(context(driver, local=local))
    assert isinstance(found, Known)
    assert "Unknown Error" in found.value.errors[0].error


def test_one_lost_gpu_does_not_hide_the_other_by_nvml(driver: StubDriver) -> None:
    driver.show(holding(1, mode="lost"), StubGpu(keys={**H100, "uuid": "GPU-2", "bus_id": "00000000:00:07.0"}))
    found = read(context(driver))
    assert isinstance(found, Known)
    assert [g.uuid for g in found.value.gpus] == ["GPU-2"]
    assert found.value.errors[0].index == 0


def test_nvml_that_hangs_is_ended_and_timed_out(driver: StubDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    driver.show(mode="hang")
    host = context(driver).host
    real = host.run
    monkeypatch.setattr(host, "run", lambda argv, **kw: real(argv, **{**kw, "timeout_s": min(kw["timeout_s"], 3)}))
    found = read(context(driver, host=host))
    assert isinstance(found, Unknown)
    assert found.reason is UnknownReason.TIMED_OUT
    assert "ended" in found.detail


def test_nvidia_smi_that_hangs_is_started_once(driver: StubDriver) -> None:
    driver.show(mode="hang")
    log = driver.folder / "calls"
    driver.smi.write_text(f'#!/bin/sh\necho x >> "{log}"\nexec sleep 1000\n')
    began = time.monotonic()
    evidence = gather(context(driver, local=False))
    assert isinstance(evidence.gpus, Unknown)
    assert evidence.gpus.reason is UnknownReason.TIMED_OUT
    assert "not started again" in evidence.gpus.detail
    assert log.read_text().count("x") == 1
    assert time.monotonic() - began < 20


@ROUTES
def test_no_driver_and_nothing_on_the_bus_is_absent_with_its_proof(driver: StubDriver, local: bool) -> None:
    driver.show(mode="no-driver")
    found = read(context(driver, local=local))
    assert isinstance(found, Absent)
    for sign in ("/sys/bus/pci", "0x10de", "/dev/nvidia*", "/proc/driver/nvidia"):
        assert sign in found.proof


def test_no_library_and_no_tool_is_absent_and_quick() -> None:
    began = time.monotonic()
    evidence = gather(context())
    assert isinstance(evidence.gpus, Absent)
    assert evidence.window_s == 0
    assert time.monotonic() - began < 8


def test_a_container_that_lost_its_devices_says_so(driver: StubDriver) -> None:
    driver.show(mode="unknown")
    found = read(context(driver))  # NVML: Unknown Error at start, nothing on this bus
    assert isinstance(found, Absent)
    pci = ({"bus_id": "0000:00:06.0", "driver": "nvidia"},)
    inside = Presence("", (), pci, "PID namespace 1 is not the machine's own", "", ())
    hidden = without_reader(context(), inside, "NVML: Unknown Error", UnknownReason.FAILED)
    assert isinstance(hidden, Unknown)
    assert hidden.reason is UnknownReason.DENIED
    assert "was given no GPU device files" in hidden.detail


@pytest.mark.parametrize(
    ("presence", "reason", "words"),
    [
        (Presence("", (), ({"bus_id": "b", "driver": ""},), "", "", ()), UnknownReason.TOOL_MISSING, "1 NVIDIA display devices"),
        (Presence("", ("/dev/nvidia0",), (), "", "", ()), UnknownReason.TOOL_MISSING, "/dev/nvidia0"),
        (Presence("NVRM version", (), (), "", "", ()), UnknownReason.TOOL_MISSING, "NVRM version"),
        (Presence("", (), None, "container=lxc", "", ()), UnknownReason.DENIED, "cannot tell"),
    ],
)
def test_any_sign_of_a_gpu_without_a_reader_is_unknown(presence: Presence, reason: UnknownReason, words: str) -> None:
    found = without_reader(context(), presence, "no reader", UnknownReason.TOOL_MISSING)
    assert isinstance(found, Unknown)
    assert found.reason is reason
    assert words in found.detail


def test_a_stuck_nvidia_smi_is_not_joined_by_another(driver: StubDriver) -> None:
    presence = Presence("v", ("/dev/nvidia0",), (), "", str(driver.smi), (4711,))
    found = read_gpus(context(driver, local=False), presence, 0.1, 2)
    assert isinstance(found, Unknown)
    assert found.reason is UnknownReason.TIMED_OUT
    assert "4711" in found.detail


def test_an_empty_list_in_a_container_is_no_proof(driver: StubDriver) -> None:
    with running("sleep") as p:
        driver.show(StubGpu(processes=[HeldMemory(p.pid, 9 << 30, "C", 0, "hidden")]))
        presence = read_presence(context(driver))
        assert isinstance(presence, Presence)
        inside = Presence(presence.driver, presence.devices, presence.pci, "container=docker", presence.smi, ())
        for ctx in (context(driver), context(driver, local=False)):
            found = read_gpus(ctx, inside, 0.1, 2)
            assert isinstance(found, Known)
            listed = found.value.gpus[0].processes
            assert isinstance(listed, Unknown)
            assert listed.reason is UnknownReason.DENIED


def test_mig_has_no_utilisation(driver: StubDriver) -> None:
    with running("sleep") as p:
        driver.show(holding(p.pid, mig="1"))
        found = read(context(driver))
    assert isinstance(found, Known)
    gpu = found.value.gpus[0]
    assert gpu.mig is True
    assert gpu.samples == ()
    assert isinstance(gpu.processes, Known)
    assert gpu.processes.value[0].used_bytes is None


def test_an_older_driver_without_a_field_is_still_read(driver: StubDriver) -> None:
    driver.show(StubGpu())
    script = driver.smi.read_text().replace('exec "', 'case "$*" in *memory.reserved*|*clocks_event*)\n'
        'f=clocks_event_reasons.active; case "$*" in *memory.reserved*) f=memory.reserved;; esac\n'
        'echo "Field \\"$f\\" is not a valid field to query."; exit 2;; esac\n'
        'set -- $(echo "$@" | sed s/clocks_throttle/clocks_event/)\nexec "')  # fmt: skip
    driver.smi.write_text(script)
    found = read(context(driver, local=False))
    assert isinstance(found, Known)
    assert found.value.gpus[0].memory_reserved_bytes is None
    assert found.value.gpus[0].throttle == ("gpu_idle",)


@ROUTES
def test_a_process_without_a_number_is_no_process_0(driver: StubDriver, local: bool) -> None:
    """What a driver gives for one of a PID namespace that it cannot name: 0 is nobody, and means many to `kill`."""
    driver.show(StubGpu(processes=[HeldMemory(0, 9 << 30, "C", 0, "foreign")]))
    found = read(context(driver, local=local))
    assert isinstance(found, Known)
    listed = found.value.gpus[0].processes
    assert isinstance(listed, Unknown)
    assert (listed.reason, "without its number" in listed.detail) == (UnknownReason.DENIED, True)
