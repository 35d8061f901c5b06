"""Judges a create call that found no machine: the provider's shortage, or a request narrower than the stock. Pure."""

import re

from runbooks.core.judgment import LIKELY, POSSIBLE, SURE
from runbooks.core.reading import Known
from runbooks.core.verdict import Certainty
from runbooks.spawning.evidence import Stock
from runbooks.spawning.view import SpawningView

REQUEST = "the orchestrator's request"
NARROW = (
    (r"STORAGE_NAME|NETWORK_VOLUME", "a network volume binds every pod to its data centre"),
    (r"DATA_?CENTER|REGION|COUNTRY", "only these places"),
    (r"CUDA", "only hosts with such a driver"),
    (r"CLOUD_TYPE", "only this kind of host"),
)


def judge_capacity(v: SpawningView, lines: tuple[str, ...]) -> None:
    """`lines`: the orchestrator's words of the refusal. With the provider's stock it is decided, without it both are said."""
    s = v.stock
    if s is None:
        v.say("no-capacity", LIKELY, "the row has no pod, and the orchestrator's log says:", *lines[-2:],
              decides=("the same request without data centre and with other GPU types: then the request is too narrow",))  # fmt: skip
        _tied(v, POSSIBLE)
    elif s.data_center and s.anywhere and not s.here:
        v.say("request-too-narrow", SURE, s.tied_by, f"{what(s)}: none in {s.data_center}, elsewhere {s.anywhere}", *lines[-1:],
              about=REQUEST)  # fmt: skip
        v.say("no-capacity", Certainty.RULED_OUT, f"{what(s)}: stock elsewhere {s.anywhere}")
    elif s.cloud and s.anywhere and not (s.here_in_cloud if s.data_center else s.in_cloud):
        where = f" in {s.data_center}" if s.data_center else ""
        without = f"without that {s.here if s.data_center else s.anywhere}"
        v.say("request-too-narrow", SURE, f"the request is for the {s.cloud} cloud alone",
              f"{what(s)}: none{where} in that cloud, {without}", *lines[-1:], about=REQUEST)  # fmt: skip
        v.say("no-capacity", Certainty.RULED_OUT, f"{what(s)}: stock {without}")
    elif not s.anywhere:
        v.say("no-capacity", SURE, f"{what(s)}: the provider has none anywhere", *lines[-2:])
        if s.others:
            v.say("request-too-narrow", LIKELY, f"only {s.gpu_type} is asked for; in stock: {', '.join(s.others)}", about=REQUEST,
                  decides=("does the work fit another type?",))  # fmt: skip
    else:
        now = s.here_in_cloud or s.in_cloud or s.here or s.anywhere
        v.say(
            "no-capacity",
            POSSIBLE,
            f"{what(s)}: the stock is {now} by now",
            *lines[-2:],
            decides=("the next create call",),
        )
        _tied(v, LIKELY)


def what(s: Stock) -> str:
    """What is asked for, in words."""
    return f"{s.gpus} x {s.gpu_type}"


def _tied(v: SpawningView, certainty: Certainty) -> None:
    """What in the orchestrator's settings ties the request down, so that full stock elsewhere does not help."""
    names = v.e.variables.value.names if isinstance(v.e.variables, Known) else ()
    seen = v.stock is not None and v.stock.here  # the place is no hindrance: it has stock
    open_ = NARROW[2 if seen else 0 : -1 if v.stock is not None else None]  # what the stock was read with and without is decided
    tied = [f"{n}: {why}" for n in names for pattern, why in open_ if re.search(pattern, n)]
    if tied:
        v.say("request-too-narrow", certainty, "the request is tied down by", *tied, about=REQUEST,
              decides=("the same request by hand without one of them",))  # fmt: skip
