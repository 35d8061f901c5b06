"""What only a real machine says: deletion by age as it would have gone, a device that dies, a container
without credentials."""

import contextlib
import os
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from runbooks.checkpoint.instance_role import answered
from runbooks.core.checkpoints import Tier
from runbooks.core.reading import Known
from runbooks.core.verdict import Certainty, State
from tasks.checkpoint.s3_metadata import read_metadata
from tests.support.ckpt_fleet import Shelf, context, folder, look
from tests.support.smallfs import break_device, ext4, fill, quota, read_only, tmpfs
from tests.tasks.checkpoint.test_local import break_it


def test_deletion_by_age_deletes_the_good_one(shelf: Shelf, tmp_path: Path) -> None:
    """The command that was in use, run for real: the three corrupt ones stay, the good one goes."""
    good, *bad = shelf.put(tmp_path, 100, 200, 300, 400)
    for n, path in enumerate((good, *bad)):
        if path != good:
            break_it(path)
        os.utime(path, (1e9 + n, 1e9 + n))
    _, got = look(context(folder("nvme", tmp_path)))
    assert got.headline.startswith("Resume from step 100"), "ours knows which is good"
    assert not [s for p in got.plans for s in p.steps if s.kind == "prune-checkpoints"]
    assert any("tail -n +4" in m for m in got.must_not)
    subprocess.run("ls -t *.pt | tail -n +4 | xargs rm", shell=True, cwd=tmp_path, check=True)  # noqa: S602
    assert sorted(tmp_path.glob("*.pt")) == sorted(bad)
    _, got = look(context(folder("nvme", tmp_path)))
    assert got.headline.startswith("No checkpoint that can be trusted")


def test_a_dying_device_in_the_kernel_log(shelf: Shelf, tmp_path: Path) -> None:
    """A line of the real kernel log about the device that carries the tier; other devices' lines are no matter."""
    with tmpfs(tmp_path / "n", "8m") as path:
        shelf.put(path, 100)
        seen, _ = look(context(folder("nvme", path)))
        assert isinstance(seen.tiers[0].space, Known)
        disk = "nvme9n1"
        with Path("/dev/kmsg").open("w") as log:
            log.write(f"<3>blk_update_request: I/O error, dev {disk}, sector 12345 (gpu-runbooks test)\n")
        seen, got = look(context(folder("nvme", path)))
        assert isinstance(seen.kernel, Known)
        assert any(disk in line for line in seen.kernel.value)
        assert "dying-device" not in {c.slug for c in got.causes}, "it is not the device below this tier"
        read_only(path)
        _, got = look(context(folder("nvme", path)))
        assert got.state is State.UNHEALTHY
        assert {c.slug for c in got.causes} == {"read-only"}


def test_a_device_that_really_fails(shelf: Shelf, tmp_path: Path) -> None:
    """The device below a mounted file system loses its end: the kernel's own lines, told from another device's."""
    with ext4(tmp_path, 32, "-O", "^has_journal") as path:
        shelf.put(path, 100, 200)
        break_device(path)
        seen, got = look(context(folder("nvme", path)))
        assert isinstance(seen.tiers[0].space, Known)
        (disk,) = seen.tiers[0].space.value.disks
        dying = [c for c in got.causes if c.slug == "dying-device"]
        assert [c.certainty for c in dying] == [Certainty.CONFIRMED, Certainty.LIKELY], got.causes
        assert all(f"I/O error on device {disk}" in line or f"dev {disk}" in line for line in dying[1].evidence)
        assert {c.slug for c in got.causes} == {"dying-device", "unreadable"}
        assert not got.plans, "what can't be read is not proven bad, and nothing is written to a device that fails"


def test_a_real_quota(shelf: Shelf, tmp_path: Path) -> None:
    """EDQUOT while the disk has room is told from a full disk."""
    with quota(tmp_path) as path:
        shelf.put(path, 100)
        fill(path)
        _, got = look(context(folder("nvme", path)))
        slugs = {c.slug for c in got.causes}
        assert "quota" in slugs, got.causes
        assert not slugs & {"disk-full", "reserved-blocks", "inodes-full"}


@contextlib.contextmanager
def metadata(token: int, role: str) -> Iterator[str]:
    """An instance's metadata service on loopback. `token` 0: its answer never arrives, as behind a hop limit of 1."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *args: object) -> None:
            return

        def do_PUT(self) -> None:
            if token == 0:
                over.wait(20)
                return
            self.answer(token, "TOKEN")

        def do_GET(self) -> None:
            known = self.headers.get("X-aws-ec2-metadata-token") == "TOKEN"
            self.answer(401 if not known else 200 if role else 404, role if known else "")

        def answer(self, status: int, text: str) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

    over = threading.Event()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        over.set()
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    ("token", "role", "says"),
    [(0, "trainer", "never the token request"), (200, "", "no role"), (200, "trainer", "role trainer"), (403, "", "by 403")],
)
def test_how_metadata_answers(monkeypatch: pytest.MonkeyPatch, token: int, role: str, says: str) -> None:
    with metadata(token, role) as url:
        monkeypatch.delenv("AWS_EC2_METADATA_DISABLED", raising=False)
        monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", url)
        assert says in answered(read_metadata())
    assert answered(read_metadata()).startswith("not there")


def test_the_hop_limit_in_a_judgment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that nobody can be asked for without credentials: where they were looked for says what is wrong."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_EC2_METADATA_DISABLED"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, "/nonexistent")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    with metadata(0, "trainer") as url:
        monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", url)
        tier = Tier(name="s3", kind="s3", bucket="b", prefix="p", endpoint="http://127.0.0.1:1")
        _, got = look(context(tier))
    (cause,) = got.causes
    assert (cause.slug, cause.certainty) == ("s3-hop-limit", Certainty.LIKELY), "on the machine below nobody looked"
    assert "never the token request" in " ".join(cause.evidence)
