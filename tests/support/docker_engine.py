"""A real Docker engine of the test's own: its folder, socket and cgroup; host network, or one of its own."""

import json
import os
import shutil
import signal
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.support.leftovers import own
from tests.support.need import need_program

APPLETS = [
    "sh",
    "ls",
    "cat",
    "sleep",
    "echo",
    "ps",
    "kill",
    "true",
    "false",
    "env",
    "id",
    "hostname",
    "dd",
    "head",
    "tail",
    "mkdir",
    "rm",
    "touch",
    "date",
    "grep",
    "awk",
    "sed",
    "umount",
    "mount",
    "timeout",
    "stat",
    "test",
    "sync",
]


class Engine:
    """One dockerd and its client."""

    def __init__(self, folder: Path, docker: str, dockerd: str, netns: str = "", bridge: bool = False, more: tuple[str, ...] = ()) -> None:
        self.folder, self._docker, self._dockerd, self.netns, self._bridge = folder, docker, dockerd, netns, bridge
        self._more = more
        self.socket, self.pidfile = folder / "docker.sock", folder / "dockerd.pid"
        self.data = folder / "data"
        self.group = own(folder.name)
        self._wrapper: subprocess.Popen[bytes] | None = None

    @property
    def argv(self) -> tuple[str, ...]:
        """The client, bound to this engine."""
        return (self._docker, "-H", f"unix://{self.socket}")

    def start_argv(self) -> list[str]:
        """Starts the daemon in the foreground, in the machine's mount namespace (FUSE mounts reach it)."""
        no_network = ("--bridge=none", "--iptables=false", "--ip6tables=false", "--ip-forward=false")
        return [
            *(("nsenter", f"--net=/run/netns/{self.netns}") if self.netns else ()),
            self._dockerd, "-H", f"unix://{self.socket}",
            "--data-root", str(self.data), "--exec-root", str(self.folder / "exec"),
            "--pidfile", str(self.pidfile), "--storage-driver=overlay2", "--exec-opt", "native.cgroupdriver=cgroupfs",
            f"--cgroup-parent=/{self.group}", "--userland-proxy=false", *(() if self._bridge else no_network), *self._more,
        ]  # fmt: skip

    def up(self) -> None:
        """Start the daemon and wait until it answers."""
        with (self.folder / "log").open("ab") as log:
            self._wrapper = subprocess.Popen(
                self.start_argv(), cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip  # its own folder: Podman's conmon leaves a file `oom` where it runs
        self.wait_ready()

    def wait_ready(self, seconds: float = 40) -> None:
        """Until the daemon answers; AssertionError with the end of its log."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            done = subprocess.run([*self.argv, "version"], capture_output=True, timeout=20, check=False)
            if done.returncode == 0:
                return
            time.sleep(0.1)
        raise AssertionError((self.folder / "log").read_text(errors="replace")[-2000:])

    def start_script(self) -> Path:
        """A program that starts the daemon in the background, as a fleet file's `daemon_start` would."""
        path = self.folder / "start-daemon"
        words = " ".join(f"'{w}'" for w in self.start_argv())
        path.write_text(f"#!/bin/sh\nsetsid {words} >>'{self.folder}/log' 2>&1 </dev/null &\n")
        path.chmod(0o755)
        return path

    def pid(self) -> int:
        """The daemon's pid, 0 when it has none."""
        try:
            return int(self.pidfile.read_text())
        except (OSError, ValueError):
            return 0

    def stop_daemon(self, sig: signal.Signals = signal.SIGTERM) -> None:
        """End the daemon and wait until it is gone."""
        pid = self.pid()
        if pid:
            with suppress(ProcessLookupError):
                os.kill(pid, sig)
            _wait_gone(pid, 30)
        if self._wrapper is not None:
            with suppress(subprocess.TimeoutExpired):
                self._wrapper.wait(5)

    def run(self, *words: str, check: bool = True) -> str:
        """A client command's output."""
        done = subprocess.run([*self.argv, *words], capture_output=True, text=True, timeout=90, check=False)
        assert not check or done.returncode == 0, f"{words}: {done.stderr}"
        return done.stdout.strip()

    def create(self, name: str, *words: str, options: tuple[str, ...] = ()) -> str:
        """Run a container of the test's image in the background; its id."""
        return self.run("run", "-d", "--pull=never", "--network=host", "--name", name, *options, "bb:1", *words)

    def inspect(self, name: str) -> dict[str, Any]:
        """A container as JSON."""
        found: dict[str, Any] = json.loads(self.run("inspect", "--type", "container", name))[0]
        return found

    def wait_status(self, name: str, status: str, seconds: float = 20) -> dict[str, Any]:
        """Until the container has that status; its inspect."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = self.inspect(name)
            if found["State"]["Status"] == status:
                return found
            time.sleep(0.05)
        raise AssertionError(f"{name} is {found['State']}, not {status}")

    def compute_in(self, name: str) -> int:
        """Starts a process in it that computes, by `docker exec`: its pid on this machine."""
        self.run("exec", "-d", name, "busybox", "dd", "if=/dev/zero", "of=/dev/null", "bs=4k")
        end = time.monotonic() + 10
        while time.monotonic() < end:
            for line in self.run("top", name, "-o", "pid,args").splitlines():
                if "busybox dd" in line:
                    return int(line.split()[0])
            time.sleep(0.1)
        raise AssertionError("dd did not start")

    def _groups(self) -> list[Path]:
        """This engine's cgroup folders, innermost first; they may go while they are listed."""
        tops = [d / self.group for d in Path("/sys/fs/cgroup").iterdir()]
        return [Path(d) for top in tops for d, _, _ in os.walk(top, topdown=False)]

    def kill_all(self) -> None:
        """Every process of this engine's containers, by its own cgroups."""
        for folder in self._groups():
            with suppress(OSError):
                for pid in (folder / "cgroup.procs").read_text().split():
                    os.kill(int(pid), signal.SIGKILL)

    def down(self) -> None:
        """End containers and daemon, remove cgroups, mounts and files."""
        ids = self.run("ps", "-q", check=False).split()
        if ids:
            self.run("update", "--restart=no", *ids, check=False)
        self.kill_all()
        self.stop_daemon()
        self.kill_all()
        for folder in self._groups():
            with suppress(OSError):
                folder.rmdir()
        lines = Path("/proc/mounts").read_text().splitlines()
        for path in sorted((x.split(" ")[1] for x in lines if f" {self.folder}/" in x), reverse=True):
            subprocess.run(["umount", "-l", path], check=False, capture_output=True)
        shutil.rmtree(self.folder, ignore_errors=True)


def _wait_gone(pid: int, seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            return
        if state in "ZX":
            return
        time.sleep(0.05)


def busybox_tar(folder: Path) -> Path:
    """A root file system of busybox alone, to be imported."""
    root = folder / "rootfs"
    for name in ("bin", "etc", "tmp", "proc", "sys", "dev", "root", "var"):
        (root / name).mkdir(parents=True)
    shutil.copy(need_program("busybox", "busybox-static"), root / "bin/busybox")
    for applet in APPLETS:
        (root / "bin" / applet).symlink_to("busybox")
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    tar = folder / "bb.tar"
    with tarfile.open(tar, "w") as archive:
        archive.add(root, ".")
    return tar


@contextmanager
def docker_engine(own_network: bool = False, inside: str = "", more: tuple[str, ...] = (), disk: str = "") -> Iterator[Engine]:
    """A ready engine with the image bb:1; gone afterwards. `own_network`: bridges, in a namespace of its own.

    `inside`: the network namespace (of the caller) that is its containers' host network. `more`: for the daemon's command line.
    `disk`: the size of a small disk of its own for its images and containers.
    """
    docker = "/usr/bin/docker" if Path("/usr/bin/docker").exists() else need_program("docker", "docker.io")
    folder = Path(tempfile.mkdtemp(prefix="dk"))
    netns = own(folder.name) if own_network else ""
    if netns:
        subprocess.run(["ip", "netns", "add", netns], check=True)
        subprocess.run(["ip", "-n", netns, "link", "set", "lo", "up"], check=True)
    engine = Engine(folder, docker, need_program("dockerd", "docker.io"), netns or inside, own_network, more)
    try:
        if disk:
            engine.data.mkdir()
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={disk}", "tmpfs", str(engine.data)], check=True)
        engine.up()
        engine.run("import", str(busybox_tar(folder)), "bb:1")
        yield engine
    finally:
        engine.down()
        if netns:
            subprocess.run(["ip", "netns", "del", netns], check=False)
