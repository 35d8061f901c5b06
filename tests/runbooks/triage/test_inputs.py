"""Real and hostile things that people hand in: driver bug reports, a real journal, archives that lie, noise."""

import base64
import gzip
import io
import json
import random
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from deployments.cli.triage import main
from runbooks.triage.judge import judge
from runbooks.triage.model import TriageResult
from runbooks.triage.sources import BLOCK, stream_blocks
from runbooks.triage.unpack import SourceError
from tests.support.cost import cpu_seconds

DATA = Path(__file__).parents[2] / "data"
LINE = "RuntimeError: can't start new thread"
RULE = "____________________________________________"


def read(data: bytes) -> tuple[TriageResult, list[str]]:
    """The judgement, and what could not be read."""
    notes: list[str] = []

    def blocks() -> Iterator[object]:
        try:
            yield from stream_blocks(io.BytesIO(data), "x")
        except SourceError as e:
            notes.append(str(e))

    return judge(blocks()), notes  # type: ignore[arg-type]


def archive(*members: tuple[tarfile.TarInfo | str, bytes], mode: str = "w:gz") -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as tar:  # type: ignore[call-overload]
        for name, data in members:
            info = tarfile.TarInfo(name) if isinstance(name, str) else name
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def bug_report(kernel: str) -> bytes:
    """nvidia-bug-report.log.gz: its header, files with their `ls` line, commands, the driver's own query, dmesg."""
    parts = [
        "Start of NVIDIA bug report log file.  Please include this file, along\nwith a detailed description of your "
        "problem, when reporting a graphics\ndriver bug via the NVIDIA Linux forum\n\nnvidia-bug-report.sh Version: 1\n\n"
        "Date: Fri Nov 27 10:00:00 UTC 2026\nuname: Linux n1 6.8.0 x86_64 GNU/Linux\ncommand line flags: ",
        "*** /etc/os-release\n*** ls: -rw-r--r-- 1 root root 386 2026-01-01 /etc/os-release\nNAME=Ubuntu",
        "*** /var/log/nvidia-installer.log\n-> Unable to find a path for the vendor library.\n"
        "ERROR: Unable to load the 'nvidia-drm' kernel module.",
        "/usr/bin/systemctl status nvidia-suspend.service nvidia-fabricmanager.service\n\u25cb nvidia-suspend.service - x\n"
        "     Active: inactive (dead)\n\nUnit nvidia-fabricmanager.service could not be found.",
        "journalctl -b -0 _COMM=Xorg\n\n-- No entries --",
        "/usr/bin/coredumpctl info COREDUMP_COMM=Xorg\n   Signal: 6 (ABRT)\n   Message: Process 853 (Xorg) dumped core.\n"
        "      #4  0x0000555dc3675545 FatalError (Xorg + 0x155545)",
        "*** /var/log/Xorg.0.log\n[    12.3] (EE) AIGLX: reverting to software rendering\n"
        '[    13.0] (EE) Failed to load module "fbdev" (module does not exist, 0)',
        '/usr/bin/lspci -d "10de:*" -v -xxx\n1b:00.0 3D controller: NVIDIA Corporation GH100 (rev a1)\n'
        "\t\tDevSta:\tCorrErr+ NonFatalErr- FatalErr- UnsupReq+ AuxPwr- TransPend-\n"
        "\t\tUESta:\tDLP- SDES- TLP- FCP- CmpltTO- CmpltAbrt- UnxCmplt- RxOF- MalfTLP- ECRC- UnsupReq- ACSViol-\n"
        "\t\tCESta:\tRxErr- BadTLP- BadDLLP- Rollover- Timeout- AdvNonFatalErr+",
        "*** /proc/interrupts\n ERR:          0\nMCE: 0 0 Machine check exceptions",
        "/usr/bin/nvidia-debugdump -D\nERROR: GetCaptureBufferSize failed, GPU access blocked by the operating system",
        "/usr/bin/ps -ef\nroot        2233       2  0 09:00 ?        00:00:00 [irq/130-nvidia]",
        "*** /proc/driver/nvidia/params\n*** ls: -r--r--r-- 1 root root 0 /proc/driver/nvidia/params\nResmanDebugLevel: 0",
        "*** /proc/mounts\ncgroup /sys/fs/cgroup/pids cgroup rw,relatime,pids 0 0\ntmpfs /dev/shm tmpfs rw,size=65536k 0 0",
        "Skipping acpidump output (acpidump not found)",
        "Skipping vulkaninfo output (vulkaninfo not found)",
        "/usr/bin/nvidia-smi --query\n" + (DATA / "h100" / "smi-q.txt").read_text(),
        "/usr/bin/nvidia-smi\n" + (DATA / "h100" / "smi-idle.txt").read_text(),
        f"/usr/bin/dmesg\n\n{kernel}",
        "End of NVIDIA bug report log file.",
    ]
    return gzip.compress(f"\n\n{RULE}\n\n".join(["", *parts]).encode(), mtime=0)


def test_a_driver_bug_report() -> None:
    quiet = (
        "[    5.1] nvidia: module verification failed: signature and/or required key missing - tainting kernel\n"
        "[    9.0] br-1: port 1(veth1) entered disabled state"
    )
    for report in (bug_report(quiet), gzip.decompress(bug_report(quiet))):
        out, _ = read(report)
        assert (out.verdict, out.unexplained) == ("nothing", ())
        assert {"x (dmesg)", "x (nvidia-smi --query)", "x (ps -ef)", "x (/proc/mounts)"} <= set(out.files)
    out, _ = read(bug_report(f"{quiet}\n[ 99.0] NVRM: Xid (PCI:0000:1b:00): 79, pid=1, GPU has fallen off the bus."))
    assert [c.slug for c in out.causes] == ["gpu-off-the-bus"]
    line = out.causes[0].evidence[0]
    assert (line.file, "Xid" in line.text) == ("x (dmesg)", True)
    whole = gzip.decompress(
        bug_report(f"{quiet}\n[ 99.0] NVRM: Xid (PCI:0000:1b:00): 79, pid=1, GPU has fallen off the bus.")
    )
    assert b"Xid" in whole.split(b"\n")[line.number - 1]


@pytest.mark.parametrize(
    ("kernel", "slug"),
    [
        ("NVRM: API mismatch: the client has the version 570.133.20, but\nNVRM: this kernel module has 580.1.", "driver-library-mismatch"),
        ("NVRM: GPU 0000:1b:00.0: RmInitAdapter failed! (0x26:0x56:1463)", "gpu-unreadable"),
        ("NVRM: Xid (PCI:0000:1b:00): 13, pid=42, Graphics SM Warp Exception: Out Of Range Address", "gpu-application-fault"),
        ("NVRM: Xid (PCI:0000:1b:00): 48, pid=7, name=python, DBE (double bit error) ECC Error", "memory-ecc"),
    ],
)  # fmt: skip
def test_what_the_kernel_says_in_a_driver_bug_report(kernel: str, slug: str) -> None:
    assert read(bug_report(f"[ 99.0] {kernel}"))[0].causes[0].slug == slug


@pytest.mark.parametrize("name", ["smi-idle", "smi-q", "smi-qx", "ps-idle", "gpu-idle"])
def test_what_a_healthy_card_says_is_no_alarm(name: str) -> None:
    assert read((DATA / "h100" / f"{name}.txt").read_bytes())[0].verdict == "nothing"


def test_a_real_journal_in_json() -> None:
    """Written by a real systemd-journald: a message of several lines, and one with colours as a list of bytes."""
    out, _ = read((DATA / "triage" / "journal.json").read_bytes())
    assert {c.slug for c in out.causes} == {"thread-limit", "fd-limit"}
    assert all("\x1b" not in line.text for c in out.causes for line in c.evidence)


def test_an_archive_that_lies_is_only_read() -> None:
    link = tarfile.TarInfo("logs/link")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    device = tarfile.TarInfo("logs/disk")
    device.type = tarfile.BLKTYPE
    data = archive(("../../etc/cron.d/x", LINE.encode()), (link, b""), (device, b""), ("a\x1b[2Jb.log", b"fine"))
    out, notes = read(data)
    assert [c.slug for c in out.causes] == ["thread-limit"]
    assert out.causes[0].evidence[0].file == "x/../../etc/cron.d/x"
    assert not any("\x1b" in f for f in out.files)
    assert not notes


def test_members_that_cannot_be_read_are_told_and_the_rest_is_judged() -> None:
    data = archive(
        ("core", bytes(range(256)) * 100), ("a.log.gz", gzip.compress(b"x" * 9000)[:-9]), ("b.log", LINE.encode())
    )
    out, notes = read(data)
    assert [c.slug for c in out.causes] == ["thread-limit"]
    assert "core: not text" in notes[0]
    assert "a.log.gz" in notes[0]
    _, cut = read(archive(("b.log", LINE.encode() * 999), mode="w")[:9000])
    assert "ends or breaks here" in cut[0]


def test_reports_in_a_bundle_are_no_evidence() -> None:
    data = archive(("bundle.json", LINE.encode()), ("steps/zombie-gpu/1.report.md", LINE.encode()), ("x.log", b"fine"))
    assert read(data)[0].verdict == "nothing"


@pytest.mark.parametrize(
    "data",
    [
        b"\0" * 300 + LINE.encode() + b"\nmore text of the log after a crash of the machine\n" * 40,
        LINE.encode("utf-16-le"),
        LINE.encode("utf-16-be"),
        b"\r\n".join([b"a", LINE.encode(), b""]),
        LINE.replace(" ", "\x1b[31m \x1b[0m").encode(),
    ],
    ids=["zeros", "utf-16-le", "utf-16-be", "crlf", "colours"],
)
def test_odd_texts_are_read(data: bytes) -> None:
    out, notes = read(data)
    assert [c.slug for c in out.causes] == ["thread-limit"]
    assert not notes


def test_noise_and_bombs_end_soon_and_quietly() -> None:
    began = time.process_time()
    assert read(bytes(range(256)) * 9000)[1]
    assert read(gzip.compress(gzip.compress(gzip.compress(b"\0" * (50 << 20)))))[1]
    assert read(b"error " * (2 * BLOCK))[0].verdict == "not-enough"  # one line of 12 MiB
    assert read(b'{"alerts": ' + b"[" * 100_000 + b', "labels"')[0].verdict in ("nothing", "not-enough")
    assert read(b'{"MESSAGE": "x"}\n' + b'{"MESSAGE":' * 10_000)[0].verdict == "nothing"
    assert time.process_time() - began < 8


def test_what_is_no_text_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["/dev/zero"]) == 2
    assert "a device" in capsys.readouterr().err
    (tmp_path / "zeros").write_bytes(b"\0" * 100_000)
    assert main([str(tmp_path / "zeros")]) == 2
    assert "not text" in capsys.readouterr().err


@pytest.mark.parametrize(
    "line",
    [
        base64.b64encode(random.Random(1).randbytes(57)) + b"\n",
        b"A" * 8000,
        b"This might be caused by (1) SIGKILL\n",
        b"\x1b[31mx",
    ],
    ids=["base64", "endless", "guesses", "colours"],
)
def test_what_says_nothing_costs_little_and_hides_nothing(line: bytes) -> None:
    """4 MiB of it around one known line."""
    half = line * ((2 << 20) // len(line))
    text = half + b"\n" + LINE.encode() + b"\n" + half
    out, _ = read(text)
    assert [c.slug for c in out.causes] == ["thread-limit"]
    assert cpu_seconds(lambda: read(text), 1.5) < 1.5


def test_what_is_shown_moves_no_cursor(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a\x1b]0;title\x07b.log"
    path.write_text(f"\x1b[2J{LINE}\x07\x9b31m\u202e\n")
    assert main([str(path)]) == 1
    assert not [c for c in capsys.readouterr().out if not (c.isprintable() or c == "\n")]


def test_a_resolved_alert_beside_a_firing_one_as_alertmanager_sends_it() -> None:
    alert = {
        "status": "firing",
        "labels": {"alertname": "GpuXid", "instance": "n1:9400", "xid": "79"},
        "annotations": {"summary": "NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus"},
        "startsAt": "2026-11-27T10:00:00Z",
        "fingerprint": "abc",
    }
    other = {**alert, "status": "resolved", "annotations": {"summary": LINE}}
    payload = {"version": "4", "groupKey": "{}:{}", "status": "firing", "receiver": "r", "alerts": [alert, other]}
    out, _ = read(json.dumps(payload, indent=1).encode())
    assert [c.slug for c in out.causes] == ["gpu-off-the-bus"]
