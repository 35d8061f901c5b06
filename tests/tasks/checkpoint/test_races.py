"""Checkpoints are written anew while they are deleted, set aside, put back or pointed at: what is new stays, at its name."""

import errno
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tasks.checkpoint.probes import ckpt_guard
from tasks.checkpoint.probes.ckpt_act import main
from tasks.checkpoint.probes.ckpt_files import identity, members
from tasks.checkpoint.probes.ckpt_fs import mount
from tasks.remote.probes import aside
from tasks.remote.probes.refused import Refused
from tests.support.ckpt_files import spec_for
from tests.support.ckpt_fleet import Shelf
from tests.support.racing import Steps, every_step, process, writing_at
from tests.support.smallfs import tmpfs

OLD, NEW, KEPT = b"old" * 100, b"new" * 90, b"kept" * 10
FORMS = ("file", "folder")


def put(path: Path, data: bytes, form: str) -> None:
    """A checkpoint: one file, or a folder of three."""
    if form == "file":
        path.write_bytes(data)
        return
    path.mkdir()
    for n in range(3):
        (path / f"rank_{n}.pt").write_bytes(data)


def read(path: Path) -> set[bytes]:
    return {p.read_bytes() for p in path.iterdir()} if path.is_dir() else {path.read_bytes()} if path.exists() else set()


def write_anew(path: Path, form: str) -> None:
    """As a trainer does: under another name, then in place of what is there."""
    fresh = path.with_name(path.name + ".saving")
    put(fresh, NEW, form)
    if form == "folder" and path.exists():
        shutil.rmtree(path)
    fresh.replace(path)


def tier(root: Path, form: str) -> dict[str, str]:
    """Three checkpoints; name -> identity."""
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    for name, data in (("step_1", OLD), ("step_2", OLD), ("step_9", KEPT)):
        put(root / name, data, form)
    return {p.name: identity(members(str(p))) for p in root.iterdir()}


def prune_ask(root: Path, ids: dict[str, str]) -> dict[str, Any]:
    return {"do": "prune", "root": str(root), "pointer": "latest", "keep": [{"name": "step_9", "identity": ids["step_9"]}],
            "delete": [{"name": n, "identity": ids[n], "size": 1} for n in ("step_1", "step_2")]}  # fmt: skip


def quarantine_ask(root: Path, ids: dict[str, str]) -> dict[str, Any]:
    return {"do": "quarantine", "root": str(root), "name": "step_2", "identity": ids["step_2"],
            "to": f"step_2.bad-{ids['step_2'][:8]}"}  # fmt: skip


def settle_ask(do: str) -> Callable[[Path, dict[str, str]], dict[str, Any]]:
    """What is left of a deletion that broke off: finish it, or give it its name back."""

    def ask(root: Path, ids: dict[str, str]) -> dict[str, Any]:
        left = f"step_2.deleting-{ids['step_2'][:8]}.tmp"
        (root / "step_2").rename(root / left)
        return {"do": do, "root": str(root), "was": "step_2", "name": left, "identity": identity(members(str(root / left)))}

    return ask


ASKS = {"prune": prune_ask, "quarantine": quarantine_ask, "finish": settle_ask("finish"), "put-back": settle_ask("put-back")}


def kept(root: Path, got: dict[str, Any], at: object) -> None:
    """What was written anew lies whole under its name, whatever was done before and after; what stays was not touched."""
    words = f"{at}: {got}, {sorted(p.name for p in root.iterdir())}"
    assert read(root / "step_2") == {NEW}, words
    assert read(root / "step_9") == {KEPT}, words
    aside = {p.name: read(p) for p in root.iterdir() if p.name not in ("step_1", "step_2", "step_9")}
    assert all(data == {OLD} for data in aside.values()), f"{words}, {aside}"
    assert got.keys() & {"said", "refused", "failed"}
    if "refused" in got:
        assert read(root / "step_1") == {OLD}, f"a refusal changes nothing; {words}"


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """No process has anything open: each look at all of them costs more than the rest of a try."""
    monkeypatch.setattr(ckpt_guard, "holders", lambda *_: {"all": True, "list": []})


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("do", ["prune", "quarantine", "finish", "put-back"])
def test_written_anew_before_every_step(tmp_path: Path, nobody: None, do: str, form: str) -> None:
    root = tmp_path / "tier"
    answers: set[str] = set()

    def run(at: int) -> Steps:
        ask = ASKS[do](root, tier(root, form))
        with writing_at(root, at, lambda: write_anew(root / "step_2", form)) as steps:
            got = main(ask)
        answers.update(got)
        if steps.wrote:
            kept(root, got, at)
        return steps

    assert every_step(root, run) > 6
    wanted = {"said"} if do == "finish" else {"said", "refused"}  # nobody writes the name that a deletion left
    assert answers >= wanted, "the writer came too late once, and early enough once"


@pytest.mark.parametrize("form", FORMS)
def test_what_must_stay_is_looked_at_again_before_each_deletion(tmp_path: Path, form: str) -> None:
    """Deleting takes minutes: the last proven one goes after the first deletion, so the second does not happen."""
    root = tmp_path / "tier"
    ask = prune_ask(root, tier(root, form))

    def damage() -> None:
        if not (root / "step_1").exists() and not list(root.glob("step_1.deleting*")):
            shutil.rmtree(root / "step_9") if form == "folder" else (root / "step_9").unlink()
        else:
            steps.at, steps.wrote = steps.seen + 1, False

    with writing_at(root, 1, damage) as steps:
        got = main(ask)
    assert not (root / "step_9").exists()
    assert "deleted" in got["failed"]
    assert "step_9 is not there any more" in got["failed"]
    assert read(root / "step_2") == {OLD}, "the other one has its name again"
    assert sorted(p.name for p in root.iterdir()) == ["step_2"]


def test_opened_for_writing_right_before_its_turn(tmp_path: Path) -> None:
    """A process of its own opens it after the first look at open files; under the new name it is seen."""
    root = tmp_path / "tier"
    ask = prune_ask(root, tier(root, "file"))
    code = "import sys; f = open(sys.argv[1], 'r+b'); print('open', flush=True); sys.stdin.readline(); f.write(b'new')"

    def open_it() -> None:
        if not (root / "step_1").exists() and not list(root.glob("step_1.deleting*")):
            assert p.stdin is not None
            assert p.stdout is not None
            p.stdin.write("\n")
            p.stdin.flush()
            assert p.stdout.readline() == "open\n"
        else:
            steps.at, steps.wrote = steps.seen + 1, False

    with process("import sys; sys.stdin.readline();" + code, str(root / "step_2")) as p:
        with writing_at(root, 1, open_it) as steps:
            got = main(ask)
        assert f"pid {p.pid} has step_2.deleting" in got["failed"]
    assert read(root / "step_2") == {OLD}


@pytest.mark.parametrize("do", ["prune", "quarantine"])
def test_a_process_that_works_inside_of_it(tmp_path: Path, do: str) -> None:
    """It has nothing open, and writes by names that no renaming takes from it."""
    root = tmp_path / "tier"
    ask = ASKS[do](root, tier(root, "folder"))
    code = "import os, sys; os.chdir(sys.argv[1]); print('there', flush=True); sys.stdin.readline()"
    with process(code, str(root / "step_2")) as p:
        assert p.stdout is not None
        assert p.stdout.readline() == "there\n"
        assert f"pid {p.pid} has step_2 open" in main(ask)["refused"]
    assert read(root / "step_2") == {OLD}
    assert "said" in main(ask)


WRITER = """
import os, sys, time
path, new = sys.argv[1], sys.argv[2].encode()
for line in sys.stdin:
    end = time.perf_counter() + float(line)
    with open(path + ".saving", "wb") as f:
        f.write(new)
    while time.perf_counter() < end:
        pass
    os.replace(path + ".saving", path)
    print("written", flush=True)
"""


@pytest.mark.parametrize("do", ["prune", "quarantine"])
@pytest.mark.parametrize("tries", [20, pytest.param(300, marks=pytest.mark.soak)])
def test_a_process_that_writes_all_the_time(tmp_path: Path, do: str, tries: int) -> None:
    """Each try at another moment of the act, from before it begins until after it has ended."""
    root = tmp_path / "tier"
    ask = ASKS[do](root, tier(root, "file"))
    begun = time.perf_counter()
    main(ask)
    lasts = time.perf_counter() - begun
    with process(WRITER, str(root / "step_2"), NEW.decode()) as p:
        assert p.stdin is not None
        assert p.stdout is not None
        for n in range(tries):
            ask = ASKS[do](root, tier(root, "file"))
            p.stdin.write(f"{1.2 * lasts * n / tries:.6f}\n")
            p.stdin.flush()
            got = main(ask)
            assert p.stdout.readline() == "written\n"
            kept(root, got, n)


@pytest.mark.parametrize("link", [False, True])
def test_the_pointer_is_written_before_every_step(tmp_path: Path, nobody: None, link: bool) -> None:
    """Whoever wrote last is in the pointer; also who writes while another one's is given back."""
    root = tmp_path / "tier"

    def write(text: str) -> None:
        fresh = root / "latest.saving"
        fresh.symlink_to(text) if link else fresh.write_text(text)
        fresh.replace(root / "latest")

    def run(at: int) -> Steps:
        ids = tier(root, "file")
        write("step_1")
        seen = (root / "latest").lstat()
        ask = {"do": "point", "root": str(root), "pointer": "latest", "text": "step_9", "name": "step_9",
               "identity": ids["step_9"], "expect": identity({"latest": seen})}  # fmt: skip
        with writing_at(root, at, lambda: write("step_2")) as steps:
            got = main(ask)
        if steps.wrote:
            now = (root / "latest").readlink().name if link else (root / "latest").read_text()
            assert now == "step_2", f"{at}: {got}"
            assert sorted(p.name for p in root.iterdir()) == ["latest", "step_1", "step_2", "step_9"]
        return steps

    assert every_step(root, run) > 6


def test_two_writers_during_one_swap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One writes right before the swap; another one, while that is given back: the later one stays."""
    name, fresh = tmp_path / "latest", tmp_path / "fresh"
    real = aside.rename2
    calls = []

    def slow(old: str, new: str, flags: int) -> None:
        calls.append(flags)
        (tmp_path / "x").write_text(f"writer {len(calls)}")
        if len(calls) in (1, 2):
            (tmp_path / "x").replace(name)
        real(old, new, flags)

    def look(out: str) -> None:
        if Path(out).read_text() != "judged":
            raise ValueError("not the judged one")

    name.write_text("judged")
    fresh.write_text("ours")
    monkeypatch.setattr(aside, "rename2", slow)
    with pytest.raises(ValueError, match="judged"):
        aside.swap(str(fresh), str(name), look)
    assert name.read_text() == "writer 2"
    assert len(calls) == 3


@pytest.mark.parametrize("writes", [0, 1, 2, 3])
def test_a_swap_where_nothing_can_be_exchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writes: int) -> None:
    """The name is taken away, looked at and given again; whoever writes it anew at that moment keeps it."""
    name, fresh = tmp_path / "latest", tmp_path / "fresh"
    name.write_text("judged")
    fresh.write_text("ours")
    calls = []

    def cannot(*_: object) -> None:
        calls.append(1)
        if len(calls) == writes:
            (tmp_path / "x").write_text("theirs")
            (tmp_path / "x").replace(name)
        raise OSError(errno.EINVAL, "no")

    def look(out: str) -> None:
        if Path(out).read_text() != "judged":
            raise ValueError("not the judged one")

    monkeypatch.setattr(aside, "rename2", cannot)
    if writes:
        with pytest.raises((ValueError, Refused)):
            aside.swap(str(fresh), str(name), look)
    else:
        aside.swap(str(fresh), str(name), look)
    assert name.read_text() == ("theirs" if writes else "ours")
    assert fresh.read_text() == ("ours" if writes else "judged")


@pytest.mark.parametrize("taken", [False, True])
def test_a_file_system_that_cannot_rename_without_replacing(tmp_path: Path, taken: bool) -> None:
    """By a second link; a taken name is never replaced there either, and the old name is given back."""

    def cannot(*_: object) -> None:
        raise OSError(errno.EINVAL, "no")

    (tmp_path / "a").write_text("a")
    if taken:
        (tmp_path / "b").write_text("b")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(aside, "rename2", cannot)
        if taken:
            with pytest.raises(FileExistsError):
                aside.rename_free(str(tmp_path / "a"), str(tmp_path / "b"))
        else:
            aside.rename_free(str(tmp_path / "a"), str(tmp_path / "b"))
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == ({"a": "a", "b": "b"} if taken else {"b": "a"})


def test_a_folder_is_made_only_in_the_one_that_was_judged(tmp_path: Path) -> None:
    """Its parent is exchanged for a link to another device before every step."""
    top, value = tmp_path / "top", tmp_path / "value"

    def exchange() -> None:
        (top / "parent").rename(top / "away")
        (top / "parent").symlink_to(value)

    def run(at: int) -> Steps:
        shutil.rmtree(top, ignore_errors=True)
        (top / "parent").mkdir(parents=True)
        ask = {"do": "mkdir", "parent": str(top / "parent"), "path": str(top / "parent" / "tier"),
               "device": mount(str(top / "parent"))["device"]}  # fmt: skip
        with writing_at(top, at, exchange) as steps:
            main(ask)
        assert list(value.iterdir()) == [], at
        return steps

    with tmpfs(value, "1m"):
        assert every_step(top, run) > 3


def test_a_deletion_follows_no_link_that_appears_in_it(tmp_path: Path, nobody: None) -> None:
    """A folder below it is exchanged for a link to something of value, before every step."""
    root, value = tmp_path / "tier", tmp_path / "value"

    def swap_in() -> None:
        for part in root.glob("step_2*/deep"):
            part.rename(tmp_path / f"away-{os.urandom(3).hex()}")
            part.symlink_to(value)

    def run(at: int) -> Steps:
        ids = tier(root, "folder")
        shutil.rmtree(value, ignore_errors=True)
        (root / "step_2" / "deep").mkdir()
        (root / "step_2" / "deep" / "a").write_text("a")
        value.mkdir()
        (value / "a").write_text("of value")
        ids["step_2"] = identity(members(str(root / "step_2")))
        with writing_at(root, at, swap_in) as steps:
            main(prune_ask(root, ids))
        assert (value / "a").read_text() == "of value"
        return steps

    assert every_step(root, run) > 6


def copy_ask(folder: Path, shelf: Shelf, form: str) -> dict[str, Any]:
    """One whole checkpoint in `from`, to be copied to `to`."""
    for name in ("from", "to"):
        shutil.rmtree(folder / name, ignore_errors=True)
        (folder / name).mkdir()
    (path,) = shelf.put(folder / "from", 300, form=form)
    return {"do": "copy", "from": str(folder / "from"), "root": str(folder / "to"), "name": path.name,
            "identity": identity(members(str(path))), "spec": spec_for(form, 300)._asdict()}  # fmt: skip


@pytest.mark.parametrize("stride", [7, pytest.param(1, marks=pytest.mark.soak)])
@pytest.mark.parametrize("what", ["target", "source", "copy"])
def test_a_copy_while_others_write_before_every_step(tmp_path: Path, shelf: Shelf, what: str, stride: int) -> None:
    """The target's name is taken, the source is written anew, or somebody writes to the copy: never a wrong one under the name."""
    name = "checkpoint_step_300.pt"
    target, source = tmp_path / "to" / name, tmp_path / "from" / name

    def write() -> None:
        if what == "target":
            target.write_bytes(NEW)
        elif what == "source":
            write_anew(source, "file")
        for copy in tmp_path.glob("to/*.incoming-????????.tmp") if what == "copy" else ():
            copy.write_bytes(NEW)

    def run(at: int) -> Steps:
        ask = copy_ask(tmp_path, shelf, "torch-zip")
        whole = source.read_bytes()
        with writing_at(tmp_path, at, write, on_fd=True) as steps:
            got = main(ask)
        if what == "target" and steps.wrote:
            assert target.read_bytes() == NEW, f"{at}: {got}"
        elif "said" in got:
            assert target.read_bytes() == whole, f"{at}: {got}"
        else:
            assert not target.exists(), f"{at}: {got}"
        return steps

    assert every_step(tmp_path, run, stride) > 50


@pytest.mark.parametrize("stride", [29, pytest.param(1, marks=pytest.mark.soak)])
@pytest.mark.parametrize("place", ["to", "from"])
def test_a_copy_follows_no_link_below_the_tier(tmp_path: Path, shelf: Shelf, place: str, stride: int) -> None:
    """The tier's user exchanges a folder for a link, where it is read and where it is written, before every step."""
    value = tmp_path / "of-root"
    secret = b"nobody else may read this"

    def exchange() -> None:
        found = [p for p in (tmp_path / place).glob("*") if p.is_dir()]
        for p in found:
            p.rename(tmp_path / f"away-{os.urandom(3).hex()}")
            p.symlink_to(value)

    def run(at: int) -> Steps:
        ask = copy_ask(tmp_path, shelf, "sharded")
        shutil.rmtree(value, ignore_errors=True)
        value.mkdir()
        if place == "from":
            for p in (tmp_path / "from").glob("*/*"):
                (value / p.name).write_bytes(secret)
        with writing_at(tmp_path / place, at, exchange) as steps:
            main(ask)
        if place == "to":
            assert list(value.iterdir()) == [], at
        copied = [p for p in (tmp_path / "to").rglob("*") if p.is_file() and not p.is_symlink()]
        assert secret not in [p.read_bytes() for p in copied], at
        return steps

    assert every_step(tmp_path, run, stride) > 100


@pytest.mark.parametrize("how", ["link", "folder", "mode"])
def test_the_mode_of_a_folder_that_is_exchanged_before_every_step(tmp_path: Path, how: str) -> None:
    """The folder that was judged gets its mode, or none does; whatever came to its name keeps its own, and it is told."""
    top, value, was = tmp_path / "top", tmp_path / "value", [0]

    def other() -> None:
        was[0] = (top / "tier").stat().st_mode & 0o7777
        if how == "mode":
            (top / "tier").chmod(0o511)
            return
        (top / "tier").rename(top / "away")
        (top / "tier").symlink_to(value) if how == "link" else shutil.copytree(value, top / "tier")

    def run(at: int) -> Steps:
        for path in (top, value):
            shutil.rmtree(path, ignore_errors=True)
            path.mkdir()
        value.chmod(0o555)
        (top / "tier").mkdir(0o500)
        with writing_at(top, at, other, on_fd=True) as steps:
            got = main({"do": "mode", "path": str(top / "tier"), "from": 0o500, "to": 0o700, "uid": os.getuid()})
        now = (top / "tier").stat().st_mode & 0o7777
        if not steps.wrote:
            assert got == {"said": [f"{top / 'tier'} has mode 0700"]}
        elif how == "mode":
            assert "refused" in got or got == {"said": [f"{top / 'tier'} has mode {now:04o}"]}, (at, got)
        else:
            assert now == value.stat().st_mode & 0o7777 == 0o555, (at, got)
            assert was == [0o700] or got.keys() <= {"refused", "code"} or "exchanged in this" in got["failed"] or "ENOTDIR" in got["failed"]
        return steps

    assert every_step(top, run) > 3
