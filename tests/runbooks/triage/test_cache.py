"""What is kept on disk is only taken back as it was written, and by whoever wrote it; without a home nothing is kept."""

import os
from pathlib import Path

import pytest

from runbooks.triage import cache

DATA = b'{"found": {"gpu": [[0], [1.0]]}}'


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A kept file."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    cache.keep("kind", "digest", DATA)
    path = cache.path_of("kind", "digest")
    assert path is not None
    assert cache.kept("kind", "digest") == DATA
    return path


@pytest.mark.parametrize("cut", [0, 5, cache.SEAL, cache.SEAL + 5, -1])
def test_half_a_file_is_none(file: Path, cut: int) -> None:
    file.write_bytes(file.read_bytes()[:cut])
    assert cache.kept("kind", "digest") is None


@pytest.mark.parametrize("data", [b"null", b"[]", b"{}", DATA, b'{"found":[],"long":[]}', b"\0" * 4096])
def test_something_else_of_the_right_form_is_none(file: Path, data: bytes) -> None:
    file.write_bytes(data)
    assert cache.kept("kind", "digest") is None


def test_another_users_file_is_none(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    expected = DATA if file.stat().st_uid == 0 else None  # root may write for everybody
    assert cache.kept("kind", "digest") == expected
    if os.getuid() == 0:
        os.chown(file, 4712, 4712)
        assert cache.kept("kind", "digest") is None


def test_a_link_that_lies_where_we_write_is_not_followed(tmp_path: Path, file: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    file.with_suffix(f".{os.getpid()}").symlink_to(victim)
    cache.keep("kind", "digest", b"new")
    assert victim.read_text() == "mine"
    assert cache.kept("kind", "digest") == b"new"


def test_a_folder_that_cannot_be_made_costs_only_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gpu-runbooks").write_text("a file")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    cache.keep("kind", "digest", DATA)
    assert cache.kept("kind", "digest") is None


def test_a_user_without_a_home_keeps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 987654)  # known to no passwd
    cache.keep("kind", "digest", DATA)
    assert cache.path_of("kind", "digest") is None
    assert cache.kept("kind", "digest") is None
