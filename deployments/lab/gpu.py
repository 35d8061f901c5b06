"""Builds the stub libnvidia-ml.so.1 and the fake nvidia-smi in a folder, and says how a node's labels point at them."""

import subprocess
import sys
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from deployments.lab.gpu_state import HeldMemory, StubGpu, StubState


@dataclass(frozen=True)
class StubDriver:
    """A built stub. Its state file is what both readers answer from."""

    folder: Path

    @property
    def state(self) -> Path:
        """The state file."""
        return self.folder / "gpu.state"

    @property
    def library(self) -> Path:
        """The built library."""
        return self.folder / "lib" / "libnvidia-ml.so.1"

    @property
    def smi(self) -> Path:
        """The fake nvidia-smi."""
        return self.folder / "bin" / "nvidia-smi"

    def labels(self) -> dict[str, str]:
        """Labels of a fleet node whose GPUs are these."""
        return {
            "ld-library-path": str(self.library.parent),
            "nvidia-smi": str(self.smi),
            "fake-nvml-state": str(self.state),
        }

    def show(self, *gpus: StubGpu, mode: str = "ok") -> None:
        """Make the driver answer with these GPUs from now on."""
        StubState(mode=mode, gpus=list(gpus)).write(self.state)


def build_stub(folder: Path) -> StubDriver:
    """Compile and lay out the stub under `folder`. Raises RuntimeError that says what is missing."""
    driver = StubDriver(folder)
    for path in (driver.library, driver.smi):
        path.parent.mkdir(parents=True, exist_ok=True)
    _compile(driver.library)
    script = resources.files("deployments.lab") / "nvidia_smi.py"
    python = sys.executable
    driver.smi.write_text(f'#!/bin/sh\nexec "{python}" "{script}" "{driver.state}" "$@"\n')
    driver.smi.chmod(0o755)
    driver.show()
    return driver


def _compile(target: Path) -> None:
    source = resources.files("deployments.lab") / "nvml_stub.c"
    argv = ["cc", "-shared", "-fPIC", "-O1", "-Wl,-soname,libnvidia-ml.so.1", "-o", str(target), str(source)]
    try:
        subprocess.run(argv, check=True, capture_output=True, text=True, timeout=60)
    except FileNotFoundError:
        raise RuntimeError("the lab's GPU needs a C compiler: apt-get install gcc libc6-dev") from None
    except subprocess.CalledProcessError as e:
        raise RuntimeError(f"cannot build the lab's GPU: {e.stderr[-500:]}") from e


def holding(pid: int, mib: int = 8710, own_sm: int = 0, flag: str = "-", **keys: str) -> StubGpu:
    """An H100 whose memory one process holds; `keys` change what else it says."""
    gpu = StubGpu(processes=[HeldMemory(pid, mib << 20, "C", own_sm, flag)])
    gpu.keys.update(keys)
    return gpu
