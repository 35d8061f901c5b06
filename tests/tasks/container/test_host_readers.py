"""What is read of a container's host besides its present state: packages of any age, drivers, kernel faults, places."""

import glob
import gzip
from pathlib import Path

import pytest

from runbooks.container.parsers.engine_error import refusal
from tasks.container.probes import host_packages, host_places, host_shutdown
from tasks.remote.probes import kernel_kills

# /var/log/dpkg.log of a Debian 12 and a Ubuntu 24.04 machine, and dnf.rpm.log of a Rocky 9 one
DPKG = """2026-02-11 06:21:12 startup archives unpack
2026-02-11 06:21:13 upgrade docker.io:amd64 20.10.24+dfsg1-1+b3 20.10.24+dfsg1-1+deb12u1
2026-02-11 06:21:13 status half-configured docker.io:amd64 20.10.24+dfsg1-1+b3
2026-02-12 06:21:13 install linux-image-6.1.0-31-amd64:amd64 <none> 6.1.128-1
2026-02-12 06:22:13 upgrade libnvidia-compute-535:amd64 535.104.05-0ubuntu1 535.183.01-0ubuntu1
2026-02-12 06:23:13 upgrade nvidia-container-toolkit:amd64 1.14.1-1 1.17.0-1
2026-02-12 06:24:13 install containerd.io:amd64 <none> 1.7.0-1
2026-02-12 06:25:13 upgrade cups:amd64 2.4.2-3 2.4.2-4
"""
RPM = """2026-02-11T06:21:13+0000 SUBDEBUG Upgraded: docker-ce-3:24.0.7-1.el9.x86_64
2026-02-11T06:21:14+0000 SUBDEBUG Installed: kernel-core-5.14.0-503.el9.x86_64
2026-02-11T06:21:15+0000 SUBDEBUG Upgraded: bash-5.1.8-9.el9.x86_64
"""
# the kernel's own words: Linux 6.1 and 5.15, NVRM 535 and 550
KERNEL = """[   12.000001] usb 1-1: new high-speed USB device number 2
[ 4100.123456] python3[31337]: segfault at 0 ip 00007f3a5c0d1a2b sp 00007ffd8e0b5c30 error 4 in libnccl.so.2[7f3a5bf00000+b0000]
[ 4101.000002] traps: pt_main_thread[31340] general protection fault ip:7f0 sp:7ff error:0 in libc.so.6[7f0+1000]
[ 4102.000003] NVRM: Xid (PCI:0000:3b:00): 31, pid=31337, name=python3, Ch 00000008, intr 00000000. MMU Fault
[ 4103.000004] NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.
"""
VERSION = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023\nGCC version: gcc 12\n"
OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.15  Release Build  (root@x)\n"


def test_packages_of_engine_driver_and_kernel() -> None:
    found = [(r["about"], r["package"]) for r in host_packages.dpkg(DPKG)]
    assert found == [("engine", "docker.io"), ("kernel", "linux-image-6.1.0-31-amd64"), ("driver", "libnvidia-compute-535")], (
        "neither the toolkit nor a first installation of an engine changes what runs"
    )
    assert "20.10.24+dfsg1-1+b3 -> 20.10.24+dfsg1-1+deb12u1" in host_packages.dpkg(DPKG)[0]["what"]
    assert [(r["about"], r["what"]) for r in host_packages.rpm(RPM)] == [("engine", "Upgraded"), ("kernel", "Installed")]


def test_logs_of_any_age(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = tmp_path / "dpkg.log.2.gz", tmp_path / "dpkg.log"
    old.write_bytes(gzip.compress(DPKG.encode()))
    new.write_text(DPKG.replace("2026-02", "2026-04"))
    assert host_packages.dpkg(host_packages.tail(str(old), 1 << 20))[0]["package"] == "docker.io"
    monkeypatch.setattr(glob, "glob", lambda _p: [str(old)])
    rows = host_packages.packages()
    assert rows == sorted(rows, key=lambda r: r["at"])
    assert {r["package"] for r in rows} >= {"docker.io", "libnvidia-compute-535"}


@pytest.mark.parametrize(("text", "loaded"), [(VERSION, "535.104.05"), (OPEN, "550.54.15"), ("", "")])
def test_driver_loaded_and_installed(tmp_path: Path, text: str, loaded: str) -> None:
    libraries = tmp_path / "usr/lib/x86_64-linux-gnu"
    libraries.mkdir(parents=True)
    assert host_packages.driver(str(tmp_path)) is None
    if text:
        (tmp_path / "proc/driver/nvidia").mkdir(parents=True)
        (tmp_path / "proc/driver/nvidia/version").write_text(text)
    (libraries / "libnvidia-ml.so.535.183.01").write_text("")
    (libraries / "libcuda.so.535.183.01").write_text("")
    (libraries / "libcuda.so.1").symlink_to("libcuda.so.535.183.01")
    assert host_packages.driver(str(tmp_path)) == {"loaded": loaded, "libraries": ["535.183.01"], "module": ""}


def test_faults_of_processes() -> None:
    found = kernel_kills.faults(KERNEL)
    assert [(f["pid"], f["process"]) for f in found] == [(31337, "python3"), (31340, "pt_main_thread"), (31337, "python3")]
    assert "libnccl" in found[0]["text"]
    assert 0.8 < found[1]["at"] - found[0]["at"] < 1


def test_places_and_what_should_be_mounted_there(tmp_path: Path) -> None:
    rows_of = (f"/dev/sdb1 {tmp_path} ext4 defaults,nofail 0 2", f"/dev/sdc {tmp_path}/x ext4 noauto 0 0", "UUID=1 none swap sw 0 0")
    table = host_places.meant("\n".join(("# a table", *rows_of)))
    assert table == [str(tmp_path)]
    (tmp_path / "data").mkdir()
    (tmp_path / "file").write_text("x")
    now = host_places.mounts()
    rows = {p: host_places.place(str(tmp_path / p), now, table) for p in ("data", "file", "none")}
    assert rows["data"] == {"path": str(tmp_path / "data"), "kind": "folder", "mounted": False, "entries": 0, "unmounted": str(tmp_path)}
    assert (rows["file"]["kind"], rows["none"]["kind"]) == ("file", "none")
    hung = host_places.place(str(tmp_path / "data"), {str(tmp_path): "fuse.gcsfuse"}, table)
    assert (hung["kind"], hung["entries"], hung["unmounted"]) == ("unread", None, ""), "what may hang is not listed"


@pytest.mark.parametrize(
    ("text", "code", "paths"),
    [
        ("cannot create mount point dir '/mnt/v': mkdir /mnt/v: file exists", 17, ("/mnt/v",)),
        ("FileExistsError: [Errno 17] File exists: '/srv/vol/a'", 17, ("/srv/vol/a",)),
        ('mounting "/mnt/a" to rootfs at "/data": mount /mnt/a:/data (via /proc/self/fd/6): not a directory', 20, ("/mnt/a", "/data")),
        ("stat /mnt/disk1/x: no such file or directory; mkdir /mnt/disk1/x: permission denied", 13, ("/mnt/disk1/x",)),
        ("something new", 0, ()),
    ],
)  # fmt: skip
def test_the_form_of_an_error(text: str, code: int, paths: tuple[str, ...]) -> None:
    found = refusal(text)
    assert (found.code, found.paths) == (code, paths)


# as logind of systemd 252 wrote it, from the journal of the boot before
REBOOTING = '{"__REALTIME_TIMESTAMP":"1795981319070431","MESSAGE":"System is rebooting.","SYSLOG_IDENTIFIER":"systemd-logind"}'


@pytest.mark.parametrize(
    ("prints", "began"), [(f"echo '{REBOOTING}'", 1795981319.070431), ("exit 1", None), ("echo '[]'", None), ("true", None)]
)
def test_when_the_shutdown_began(prints: str, began: float | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the journal says; a journal that is not kept over a boot says nothing."""
    program = tmp_path / "journalctl"
    program.write_text(f"#!/bin/sh\n{prints}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert host_shutdown.shutdown_began() == began
    program.unlink()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert host_shutdown.shutdown_began() is None
