"""What a Ray cluster shows: its nodes, the processes of its head, versions; and what is wrong with a head. Pure."""

from datetime import datetime
from enum import StrEnum
from typing import Any

from runbooks.core.base import Frozen
from runbooks.core.halted import Halted
from runbooks.core.reading import Absent, Known, Unknown, UnknownReason
from runbooks.core.verdict import Certainty


class RayNode(Frozen):
    """A node as the head lists it."""

    node_id: str
    ip: str
    alive: bool
    is_head: bool = False
    started_at: datetime | None = None
    ended_at: datetime | None = None
    resources: dict[str, float] = {}
    message: str = ""


class Versions(Frozen):
    """Of Ray and of the Python that runs it; "" unknown, and "3.11" where only that much can be told."""

    ray: str = ""
    python: str = ""


class RayView(Frozen):
    """The cluster as its head shows it."""

    version: str
    nodes: tuple[RayNode, ...]
    worker_version: str = ""  # of Ray inside the container, "" unknown
    worker_python: str = ""


class Answer(StrEnum):
    """How something that serves behaved when it was asked."""

    ANSWERS = "answers"
    SILENT = "silent"  # the connection was accepted, nothing came in time
    REFUSED = "refused"  # nothing listens there
    WRONG = "wrong"  # an HTTP error, or something else speaks there
    UNREACHED = "unreached"


class Served(Frozen):
    """One server of the head: how it answers on the head's own machine, and its process."""

    at: str
    answer: Answer
    said: str = ""
    pid: int | None = None  # None: no such process is seen
    state: str = ""  # of the process, as the kernel names it: R S D T
    halted: Halted | None = None  # the process, where a signal has stopped it


class RayHead(Frozen):
    """The head's own processes, asked on its machine."""

    gcs: Served
    dashboard: Served
    versions: Versions = Versions()
    stopped: tuple[Halted, ...] = ()  # others of its session on that machine, where one of the two is stopped by a signal
    last_words: tuple[str, ...] = ()  # of a GCS that is gone


class HeadFault(Frozen):
    """What is wrong with a head. `slug` is the cause's name in both runbooks that judge heads."""

    slug: str  # head-gone | head-stuck | dashboard-down | head-unreachable
    certainty: Certainty
    evidence: tuple[str, ...]
    decides: tuple[str, ...] = ()


STATES = {"T": "it is stopped by a signal (state T)", "t": "a debugger holds it (state t)",
          "D": "it waits in the kernel (state D)"}  # fmt: skip
SURE, LIKELY, POSSIBLE = Certainty.CONFIRMED, Certainty.LIKELY, Certainty.POSSIBLE


def head_fault(head: Known[RayHead] | Absent | Unknown, lists: Known[Any] | Absent | Unknown) -> HeadFault | None:
    """None: its list of nodes came, or nothing speaks against it. A head whose machine was not reached is not called gone."""
    if not isinstance(lists, Unknown):
        return None
    if not isinstance(head, Known):
        asked = isinstance(head, Unknown) and head.reason not in (UnknownReason.NOT_RECORDED, UnknownReason.NOT_ASKED)
        said = head.detail if isinstance(head, Unknown) and asked else lists.detail
        check = ("whether the head's machine can be reached, and whether gcs_server runs there and answers",)
        return HeadFault(slug="head-unreachable", certainty=POSSIBLE, evidence=(f"not read: {said}",), decides=check)
    gcs, board = head.value.gcs, head.value.dashboard
    if gcs.answer is Answer.ANSWERS:
        return _board(gcs, board, lists)
    if gcs.pid is None and gcs.answer is not Answer.SILENT:
        return _gone(head.value)
    return _stuck(gcs, board)


def _gone(head: RayHead) -> HeadFault:
    gcs, board = head.gcs, head.dashboard
    lives = board.answer is Answer.ANSWERS or board.pid is not None or gcs.answer is not Answer.REFUSED
    words = (f"no gcs_server runs there and nothing listens at {gcs.at}", _server_words("its dashboard", board),
             "its last words: " + " | ".join(head.last_words) if head.last_words else "")  # fmt: skip
    check = ("whether the fleet file's `gcs` and `temp_dir` are this head's",) if lives else ()
    return HeadFault(slug="head-gone", certainty=LIKELY if lives else SURE, evidence=words, decides=check)


def _stuck(gcs: Served, board: Served) -> HeadFault:
    """Its process is there, or the kernel accepts for it, and it says nothing."""
    runs = gcs.answer is Answer.SILENT
    check = () if runs else ("the end of gcs_server.out: it may be starting, or listen at another address",)
    words = (_server_words("its GCS", gcs), _server_words("its dashboard", board))
    return HeadFault(slug="head-stuck", certainty=SURE if runs else LIKELY, evidence=words, decides=check)


def _board(gcs: Served, board: Served, lists: Unknown) -> HeadFault | None:
    if board.answer is not Answer.ANSWERS:
        words = (_server_words("its dashboard", board), f"its GCS at {gcs.at} answers")
        return HeadFault(slug="dashboard-down", certainty=SURE, evidence=words)
    if lists.reason is UnknownReason.TIMED_OUT or lists.detail.startswith("HTTP 5"):
        check = ("CPU and memory of gcs_server, the end of gcs_server.out",)
        words = (f"GCS and dashboard answer, its lists do not come: {lists.detail}", _server_words("its GCS", gcs))
        return HeadFault(slug="head-stuck", certainty=LIKELY, evidence=words, decides=check)
    return None


def _server_words(what: str, it: Served) -> str:
    """One server in a sentence."""
    how = {
        Answer.ANSWERS: f"answers at {it.at}", Answer.SILENT: f"accepts at {it.at} and does not answer",
        Answer.REFUSED: f"refuses at {it.at}", Answer.WRONG: f"answers at {it.at} with an error: {it.said}",
        Answer.UNREACHED: f"was not reached at {it.at}: {it.said}",
    }[it.answer]  # fmt: skip
    process = "No process of it is seen" if it.pid is None else f"Its process {it.pid} runs"
    state = STATES.get(it.state, "")
    return f"{what} {how}. {f'Process {it.pid}: {state}' if state else process}"


def differ(head: Versions, other: Versions, accepted: bool = False) -> str:
    """In words what two sides have differently, "" if nothing that is known: Ray refuses the other side for either.

    `accepted`: it is a node all the same, so a check that lets Python's last digit differ was chosen.
    """
    words = []
    if head.ray and other.ray and head.ray != other.ray:
        words.append(f"Ray: head {head.ray}, there {other.ray}")
    if head.python and other.python and not _same(head.python, other.python, 2 if accepted else 3):
        words.append(f"Python: head {head.python}, there {other.python}")
    return "; ".join(words)


def _same(one: str, other: str, parts: int) -> bool:
    """Equal in the first parts, as far as both are known."""
    return all(a == b for a, b in list(zip(one.split("."), other.split("."), strict=False))[:parts])
