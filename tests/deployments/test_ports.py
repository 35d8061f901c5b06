"""Free ports: no two processes get the same one, and none that the kernel may give to an outgoing connection."""

import contextlib
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from deployments import ports

_DRAW = "from deployments.ports import free_port; print(*[free_port() for _ in range(100)])"


def test_processes_that_draw_at_once_get_different_ports() -> None:
    drawing = [subprocess.Popen([sys.executable, "-c", _DRAW], stdout=subprocess.PIPE, text=True) for _ in range(4)]
    drawn = [int(word) for one in drawing for word in one.communicate(timeout=60)[0].split()]
    assert len(drawn) == 400
    assert len(set(drawn)) == 400
    first, last = (int(n) for n in Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    assert not [port for port in drawn if first <= port <= last]


def test_a_port_whose_partner_is_taken_is_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))  # a counter of its own
    ahead = ports.free_port(partners=(7,))
    with socket.socket() as taken:
        with contextlib.suppress(OSError):  # somebody else has it: as good
            taken.bind(("127.0.0.1", ahead + 1 + 7))
            taken.listen()
        assert ports.free_port(partners=(7,)) > ahead + 1


@pytest.mark.parametrize(
    ("words", "low", "high"),
    [
        ("32768\t60999", 10_000, 32_768),
        ("1024\t40000", 40_001, 65_536),
        ("1024\t65535", 10_000, 65_536),
        ("", 10_000, 32_768),
    ],
)
def test_the_side_that_the_kernel_leaves(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: str, low: int, high: int
) -> None:
    (tmp_path / "range").write_text(words)
    monkeypatch.setattr(ports, "_RANGE", tmp_path / "range")
    assert ports._not_the_kernels() == (low, high)


def test_a_link_in_place_of_the_counter_is_not_followed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    ports.free_port()
    (counter,) = tmp_path.iterdir()
    counter.rename(tmp_path / "precious")
    (tmp_path / "precious").write_text("keep")
    counter.symlink_to(tmp_path / "precious")
    with pytest.raises(OSError, match="symbolic link"):
        ports.free_port()
    assert (tmp_path / "precious").read_text() == "keep"
