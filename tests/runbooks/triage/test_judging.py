"""How lines are weighed: roots before consequences, guesses and frames are no evidence, facts count."""

import pytest

from runbooks.triage.expr import Value, holds, size
from runbooks.triage.render import render
from runbooks.triage.text import judge_lines, judge_text


def slugs(text: str, facts: dict[str, str] | None = None) -> list[str]:
    return [c.slug for c in judge_text(text, facts)]


def test_the_evidence_names_file_and_line() -> None:
    (cause,) = judge_text('fine\nfine\nLoad key "k": error in libcrypto\n')
    assert [(x.file, x.number) for x in cause.evidence] == [("text", 3)]
    assert cause.runbook == "ssh-auth-failure"
    assert cause.must_not


def test_a_list_of_guesses_is_no_evidence() -> None:
    out = judge_lines(
        "Worker unexpectedly exits with a connection error code 2. End of file. There are some potential root causes. "
        "(1) The process is killed by SIGKILL by OOM killer due to high memory usage."
    )
    assert out.verdict == "not-enough"
    assert len(out.inconclusive) == 1
    assert any("kernel log" in reading for reading in out.inconclusive[0].decided_by)


def test_the_real_line_above_the_guesses_wins() -> None:
    out = judge_lines(
        "RuntimeError: can't start new thread\nWorker unexpectedly exits with a connection error code 2. End of file."
    )
    assert [c.slug for c in out.causes] == ["thread-limit"]
    assert not out.inconclusive


def test_a_whole_traceback_in_one_line_is_read_to_its_end() -> None:
    """A field of a form, or a log with a record a line, has no line ends."""
    error = 'File "train.py", line 44, in init store, rank = next(it) RuntimeError: Address already in use'
    for text in (error, f"Traceback (most recent call last): {error}"):
        assert slugs(text) == ["port-taken"], text


def test_stack_frames_and_source_lines_are_no_evidence() -> None:
    frames = '  File "/a/rdzv.py", line 3, in f\n    raise RendezvousClosedError()\n'
    text = f"Traceback (most recent call last):\n{frames}OddError: x"
    assert judge_lines(text).verdict == "not-enough"
    assert slugs(text) == []


@pytest.mark.parametrize(
    ("wrapped", "rank"),
    [
        ("[rank3]: RuntimeError: can't start new thread", "rank 3"),
        ("(TrainerActor pid=42, ip=10.0.0.2) RuntimeError: can't start new thread", "TrainerActor pid=42 ip=10.0.0.2"),
        ("\x1b[31mRuntimeError: can't start \x1b[0mnew thread\r", ""),
        ("2025-01-01T00:00:00.123Z ERROR RuntimeError: can't start new thread", ""),
    ],
)
def test_prefixes_are_understood(wrapped: str, rank: str) -> None:
    (cause,) = judge_text(wrapped)
    assert cause.slug == "thread-limit"
    assert cause.evidence[0].rank == rank


def test_repeats_across_a_ray_cluster_are_counted() -> None:
    (cause,) = judge_text("(W pid=1) RuntimeError: can't start new thread [repeated 7x across cluster]")
    assert cause.evidence[0].times == 7


def test_given_facts_replace_what_the_text_says() -> None:
    assert slugs("GPU 0", {"gpu_util": "100", "gpu_mem_used": "0 MiB", "no_process": "yes"})[:1] == slugs(
        "util 100 %, 0 MiB used, no process"
    )
    with pytest.raises(ValueError, match="gpu_util"):
        judge_text("x", {"gpu_util": "much"})


def test_oom_arithmetic_decides_whose_memory_it_is() -> None:
    text = "(GPU 0; 11.17 GiB total capacity; {} already allocated; 12.50 MiB free; {} reserved in total by PyTorch)"
    assert slugs(text.format("505.96 MiB", "530.00 MiB"))[0] == "gpu-held-by-others"
    assert slugs(text.format("10.10 GiB", "10.90 GiB"))[0] == "model-too-large"


def test_text_alone_never_confirms() -> None:
    for text in ("NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus.", "EOFError"):
        assert all(c.certainty.value in ("likely", "possible") for c in judge_text(text))


def test_conditions() -> None:
    known: dict[str, tuple[Value, ...]] = {"a": (1.0, 9.0), "b": ("2 gib",)}
    assert holds("a > 5", known)
    assert not holds("c > 5", known)
    assert holds("size(b) == 2 * 1073741824", known)
    assert size("11.17 GiB") == 11.17 * 2**30
    with pytest.raises(ValueError, match="not allowed"):
        holds("__import__('os').x > a", known)


def test_a_slow_loader_is_innocent_only_while_steps_advance() -> None:
    slow = "The dataloader, train_dataloader, does not have many workers which may be a bottleneck.\nGPU util 0%, memory full"
    assert judge_lines(slow).verdict == "benign"
    for still in ("step still at 183 for 40 min", "steps stand still", "no new step for 30 min", "step 183 since 2 h"):
        assert judge_lines(f"{slow}\n{still}").verdict == "not-enough", still


def test_oom_killed_false_is_no_memory_advice() -> None:
    out = judge_lines("State:{ ExitCode:137, OOMKilled:false, Status:exited }")
    assert out.verdict == "not-enough"
    assert [c.slug for c in out.inconclusive] == ["killed-by-signal-9"]


def test_a_try_that_worked_the_second_time_is_no_cause() -> None:
    slow = "part 7 of __3_0.distcp: An error occurred (SlowDown) when calling the UploadPart operation: attempt 1 of 8"
    assert slugs(f"{slow}\npart 7 of __3_0.distcp uploaded") == []
    assert slugs(f"{slow}\npart 7 of __5_0.distcp uploaded") == ["s3-throttled"]  # another object
    assert slugs(f"part 7 of __3_0.distcp uploaded\n{slow}") == ["s3-throttled"]  # before it
    assert slugs(f"{slow.replace('UploadPart operation', 'UploadPart operation (reached max retries: 4)')}\nsaved") == [
        "s3-throttled"
    ]
    assert slugs("nfs: server nas1 not responding, still trying\nnfs: server nas1 OK") == []
    assert slugs("nfs: server nas1 not responding, still trying\nnfs: server nas2 OK") == ["storage-d-state"]


STORE = 'Could not connect to the endpoint URL: "https://s3.example/b/k"'


@pytest.mark.parametrize(
    ("later", "named"),
    [
        ("INFO s3: upload finished on attempt 2", False),
        ("INFO ckpt: saved s3://b/k after 2 attempts", False),
        ("INFO ckpt: upload done at the third try", False),
        ("INFO ckpt: saved to local disk instead: /nvme/step-9.pt", True),
        ("INFO ckpt: fell back to the node's own disk, saved", True),
        ("INFO trainer: epoch 3 done in 40 s", True),
        ("INFO trainer: validation complete, metrics saved", True),
    ],
)
def test_a_store_that_answered_the_next_time_is_no_cause(later: str, named: bool) -> None:
    assert ("s3-unreachable" in slugs(f"WARNING s3: {STORE}\n{later}")) is named


@pytest.mark.parametrize("end", ["\x07", "\x1b\\"])
def test_links_titles_and_colours_of_a_terminal_hide_nothing(end: str) -> None:
    link = f"\x1b]8;id=1;file:///a.py{end}can't\x1b]8;;{end}"
    line = f"\x1b]0;title{end}RuntimeError: {link} \x1b[38:2::255:0:0mstart\x1b[m new thread"
    assert slugs(line) == slugs(f"{line}\n\x07") == slugs("RuntimeError: can't start new thread") != []


OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 60.00 MiB (GPU 0; 11.17 GiB total capacity)"
OTHER = "ERROR flux: calibration of the frobnicator failed"


def test_beside_a_named_cause_the_lines_that_it_does_not_explain_are_listed() -> None:
    alone, out = judge_lines(OOM), judge_lines(f"{OOM}\nstep 4 done\n{OTHER}\n{OTHER}")
    assert (out.verdict, out.causes) == (alone.verdict, alone.causes)
    assert [(x.number, x.text) for x in out.besides] == [(3, OTHER)]
    assert out.unexplained == ()
    assert f"Not explained by these: lines that report a failure as well\n     text:3: {OTHER}\n\n" in render(out)
    assert alone.besides == ()
    assert "Not explained" not in render(alone)


def test_they_are_bounded_and_counted() -> None:
    many = "\n".join(f"{OTHER} {chr(97 + n // 26)}{chr(97 + n % 26)}" for n in range(300))
    out = judge_lines(f"{OOM}\n{many}")
    assert 4 < len(out.besides) < 40
    assert out.more_besides
    assert f"and at least {len(out.besides) - 4} more" in render(out)


def test_what_speaks_for_the_cause_is_explained_however_often_it_stands_there() -> None:
    """Of very many lines alike only the first and the last are kept as evidence."""
    ranks = "\n".join(f"[rank{n}]: {OOM}" for n in range(200))
    assert judge_lines(ranks).besides == ()
