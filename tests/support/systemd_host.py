"""A host with a real systemd, journal, Docker engine and sshd: this machine's files under a layer of its own, booted in
namespaces. It can be rebooted (another boot id, everything in it ends) and upgraded; nothing of it is seen outside.
"""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from deployments.lab.sshd import Sshd
from tests.support.docker_engine import busybox_tar
from tests.support.leftovers import own

CONTROLLERS = ("systemd", "unified", "memory", "pids", "devices", "cpu", "cpuacct", "cpuset", "freezer", "blkio")
DOCKERD = (
    "/usr/sbin/dockerd -H unix:///run/docker.sock --bridge=none --iptables=false --ip6tables=false --ip-forward=false"
)
MORE = "--exec-opt native.cgroupdriver=cgroupfs --userland-proxy=false --storage-driver=vfs --data-root=/var/lib/engine"
UNITS = {
    "docker.service": "[Service]\nType=notify\nEnvironment=DOCKER_RAMDISK=1\n"
    f"ExecStart={DOCKERD} {MORE}\nDelegate=yes\nKillMode=mixed\n",
    "far-ssh.service": "[Service]\nRuntimeDirectory=sshd\nExecStart=/usr/sbin/sshd -D -f FOLDER/far/config\n",
    "host.target": "[Unit]\nRequires=sysinit.target\nWants=docker.service dbus.service far-ssh.service\n"
    "After=sysinit.target\nAllowIsolate=yes\n",
}
BOOT = r"""set -e
root=$1 folder=$2
for c in $3; do
 d=/sys/fs/cgroup/$c/$4; mkdir -p "$d" 2>/dev/null || continue
 if [ "$c" = cpuset ]; then for f in cpus mems; do cat /sys/fs/cgroup/cpuset/cpuset.$f >"$d/cpuset.$f"; done; fi
 echo $$ >"$d/cgroup.procs"
done
exec unshare -m -p -u -i -f --kill-child sh -ec '
 root=$1 folder=$2
 mount --make-rprivate /
 mount --bind "$root" "$root"
 mount -t proc proc "$root/proc"
 mount -t tmpfs -o mode=755 tmpfs "$root/run"; mkdir "$root/run/lock"
 mount -t tmpfs tmpfs "$root/tmp"
 mkdir -p "$root$folder"; mount --bind "$folder" "$root$folder"
 mount --rbind /sys "$root/sys"; mount --rbind /dev "$root/dev"
 cat /proc/sys/kernel/random/uuid >"$root/run/boot_id"
 mount --bind "$root/run/boot_id" "$root/proc/sys/kernel/random/boot_id"
 hostname far
 cd "$root"
 exec env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot "$root" /lib/systemd/systemd --unit=host.target
' sh "$root" "$folder"
"""


class SystemdHost:
    """One host; `sshd` is its way in, the same across reboots."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.root, self.group = folder, folder / "root", own(folder.name)
        self.sshd = Sshd(folder, "far")
        (folder / "far/config").write_text(self.sshd._config())
        self._outer: subprocess.Popen[bytes] | None = None
        for name in ("root", "upper", "work"):
            (folder / name).mkdir()
        layers = f"lowerdir=/,upperdir={folder}/upper,workdir={folder}/work"
        subprocess.run(["mount", "-t", "overlay", "overlay", "-o", layers, str(self.root)], check=True)
        self._furnish()

    def _furnish(self) -> None:
        system = self.root / "etc/systemd/system"
        shutil.rmtree(system)
        system.mkdir()
        for name in ("docker.socket", "containerd.service", "systemd-tmpfiles-setup.service"):
            (system / name).symlink_to("/dev/null")
        for name, text in UNITS.items():
            (system / name).write_text(text.replace("FOLDER", str(self.folder)))
        (self.root / "etc/machine-id").write_text("0123456789abcdef0123456789abcdef\n")
        for path in ("etc/hostname", "usr/sbin/policy-rc.d"):
            (self.root / path).unlink(missing_ok=True)
        shutil.copy(busybox_tar(self.folder), self.root / "root/busybox.tar")

    def boot(self) -> None:
        """Starts it and waits for engine and sshd."""
        words = [str(self.root), str(self.folder), " ".join(CONTROLLERS), self.group]
        with (self.folder / "boot.log").open("ab") as log:
            self._outer = subprocess.Popen(
                ["sh", "-c", BOOT, "sh", *words], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        self.wait("docker version && systemctl is-active far-ssh")

    def init(self) -> int:
        """Pid of its systemd, as this machine counts. Raises IndexError while there is none."""
        assert self._outer is not None
        found = subprocess.run(
            ["pgrep", "-P", str(self._outer.pid)], capture_output=True, text=True, check=False
        ).stdout
        return int(found.split()[0])

    def run(self, script: str, check: bool = True) -> str:
        """A shell script inside; what it printed."""
        pid = self.init()
        argv = ["nsenter", "-t", str(pid), "-m", "-p", "-u", "-i", "chroot", f"/proc/{pid}/root", "sh", "-c", script]
        env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "DOCKER_HOST": "unix:///run/docker.sock"}
        done = subprocess.run(argv, capture_output=True, text=True, timeout=120, env=env, check=False)
        assert not check or done.returncode == 0, f"{script}: {done.stdout}{done.stderr}"
        return done.stdout.strip()

    def wait(self, script: str, seconds: float = 60) -> None:
        """Until the script ends with 0."""
        end = time.monotonic() + seconds
        while True:
            with suppress(AssertionError, IndexError):
                self.run(script)
                return
            assert time.monotonic() < end, (self.folder / "boot.log").read_text()[-2000:]
            time.sleep(0.1)

    def reboot(self) -> None:
        """`systemctl reboot`, and up again."""
        self.run("systemctl reboot", check=False)
        self._ended(60)
        self.boot()

    def _ended(self, seconds: float) -> None:
        assert self._outer is not None
        self._outer.wait(seconds)

    def close(self) -> None:
        """Ends it, as if by a power cut; nothing of it is left."""
        if self._outer is not None and self._outer.poll() is None:
            with suppress(IndexError, ProcessLookupError):
                os.kill(self.init(), signal.SIGKILL)
            self._ended(20)
        subprocess.run(["umount", "-l", str(self.root)], check=False)
        for controller in CONTROLLERS:
            top = Path("/sys/fs/cgroup") / controller / self.group
            for path in sorted((p for p in top.rglob("*") if p.is_dir()), reverse=True):
                with suppress(OSError):
                    path.rmdir()
            with suppress(OSError):
                top.rmdir()


@contextmanager
def systemd_host() -> Iterator[SystemdHost]:
    """A booted host with the image `bb:1` on its engine."""
    if not Path("/lib/systemd/systemd").exists() or shutil.which("dockerd") is None:
        pytest.skip(
            "systemd or dockerd is missing. As root: apt-get install -y --no-install-recommends systemd dbus docker.io"
        )
    folder = Path(tempfile.mkdtemp(prefix="sd"))
    host = SystemdHost(folder)
    try:
        host.boot()
        host.run("docker import /root/busybox.tar bb:1")
        yield host
    finally:
        host.close()
        shutil.rmtree(folder, ignore_errors=True)
