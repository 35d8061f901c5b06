"""A real Ray head and workers in a network namespace with only `lo`, one loopback address each. Nothing leaves it."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.support.leftovers import own

RAY_ENV = "GPU_RUNBOOKS_TEST_RAY"  # folder of a virtual environment with ray[default]==2.60.0
BOOTSTRAP = """cluster_name: test
provider: {type: local}
auth: {ssh_user: none}
head_node_type: ray.head.default
available_node_types: {ray.head.default: {resources: {}, node_config: {}}}
"""
HEAD = "127.0.0.2"
GCS, DASHBOARD = f"{HEAD}:26379", f"http://{HEAD}:28265"


def ray_bin() -> Path:
    """The folder with `ray`; skips the test with the line that installs it."""
    venv = Path(os.environ.get(RAY_ENV) or Path(__file__).parents[2] / ".venv-ray")
    if not (venv / "bin/ray").exists():
        pytest.skip(
            f"Ray is missing: python3 -m venv V && V/bin/pip install 'ray[default]==2.60.0' && export {RAY_ENV}=V"
        )
    return venv / "bin"


class RayCluster:
    """Started `ray start --block` processes, by number: 2 is the head."""

    def __init__(self, folder: Path, netns: str, bin_dir: Path, patience: int) -> None:
        self.folder, self.netns, self.bin, self.patience = folder, netns, bin_dir, patience
        self.temp = folder / "t"
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        (folder / "ray_bootstrap_config.yaml").write_text(BOOTSTRAP)

    @property
    def inside(self) -> tuple[str, ...]:
        """What puts a command into the namespace."""
        return ("ip", "netns", "exec", self.netns)

    def env(self) -> dict[str, str]:
        """Nothing is reported, dead nodes are noticed within seconds."""
        ours = {
            "HOME": str(self.folder), "PATH": f"{self.bin}:{os.environ['PATH']}", "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_USAGE_STATS_REPORT_URL": "http://127.0.0.1:9/", "RAY_USAGE_STATS_PROMPT_ENABLED": "0",
            "RAY_health_check_initial_delay_ms": "0", "RAY_health_check_period_ms": "1000",
            "RAY_health_check_timeout_ms": "1000", "RAY_health_check_failure_threshold": str(self.patience),
            "RAY_JOB_START_TIMEOUT_SECONDS": str(max(15, self.patience)),
            "RAY_gcs_rpc_server_reconnect_timeout_s": str(max(60, self.patience)),
        }  # fmt: skip
        return {**os.environ, **ours}

    def process(self, *words: str) -> int:
        """Pid of its process with these words in its command line."""
        for entry in Path("/proc").iterdir():
            with suppress(OSError):
                line = (entry / "cmdline").read_bytes().decode(errors="replace") if entry.name.isdigit() else ""
                if str(self.folder) in line and all(w in line for w in words):
                    return int(entry.name)
        raise AssertionError(words)

    def run(self, *words: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
        """A command of the Ray environment, inside the namespace."""
        argv = [*self.inside, *words]
        return subprocess.run(argv, env=self.env(), capture_output=True, text=True, timeout=timeout, check=False)

    def _start(self, number: int, words: Sequence[str]) -> None:
        common = ["--disable-usage-stats", "--object-store-memory=80000000", f"--node-ip-address=127.0.0.{number}",
                  f"--min-worker-port={30000 + number * 100}", f"--max-worker-port={30099 + number * 100}",
                  f"--dashboard-agent-listen-port={26390 + number}"]  # fmt: skip
        with (self.folder / f"{number}.log").open("wb") as log:
            self.processes[number] = subprocess.Popen(
                [*self.inside, str(self.bin / "ray"), "start", "--block", *common, *words], env=self.env(),
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def head(self, *words: str) -> None:
        """Start the head and wait for its dashboard."""
        self._start(2, ["--head", "--port=26379", f"--dashboard-host={HEAD}", "--dashboard-port=28265", "--num-cpus=2",
                        f"--temp-dir={self.temp}", "--ray-client-server-port=26380", *words])  # fmt: skip
        self.wait(("curl", "-sf", "--max-time", "2", f"{DASHBOARD}/api/version"), 240)

    def worker(self, number: int, *words: str) -> None:
        """Start one worker and wait until the head lists it as alive."""
        self._start(number, [f"--address={GCS}", "--num-cpus=1", *words])
        self.wait(("sh", "-c", f"curl -sf '{DASHBOARD}/api/v0/nodes?detail=1' | grep -q '127.0.0.{number}\"'"), 240)

    def wait(self, argv: Sequence[str], seconds: float) -> None:
        """Until the command succeeds inside the namespace."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.run(*argv).returncode == 0:
                return
            time.sleep(0.3)
        raise AssertionError((self.folder / "2.log").read_text(errors="replace")[-2000:])

    def down(self) -> None:
        """End what was started, workers first, then whatever is left in the namespace."""
        for number in sorted(self.processes, reverse=True):
            with suppress(ProcessLookupError):
                self.processes[number].send_signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                self.processes[number].wait(15)
        found = subprocess.run(["ip", "netns", "pids", self.netns], capture_output=True, text=True, check=False).stdout
        for pid in found.split():
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        subprocess.run(["ip", "netns", "del", self.netns], check=False)
        shutil.rmtree(self.folder, ignore_errors=True)


@contextmanager
def ray_cluster(patience: int = 3) -> Iterator[RayCluster]:
    """A running head; all of it is gone afterwards. It gives up a silent node after `patience` seconds, and is given up no earlier."""
    bin_dir, folder = ray_bin(), Path(tempfile.mkdtemp(prefix="r"))
    netns = own(folder.name)
    subprocess.run(["ip", "netns", "add", netns], check=True)
    subprocess.run(["ip", "-n", netns, "link", "set", "lo", "up"], check=True)
    cluster = RayCluster(folder, netns, bin_dir, patience)
    try:
        cluster.head()
        yield cluster
    finally:
        cluster.down()
