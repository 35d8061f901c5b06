"""Limits that differ by the model of a card: as the fleet file gives them, else by the card's row in runbooks/knowledge/cards.yaml."""

from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from runbooks.core.distinct import capital
from runbooks.core.gpu_set import Gpu
from runbooks.core.knowledge import load_table
from runbooks.gpu.view import MIB, GpuView

CardLimit = Literal["idle_power_w", "flat_power_w", "assumed_reserve_mib", "idle_floor_mib"]
UNKNOWN = "not known for this card"


@dataclass(frozen=True)
class Rest:
    """Memory of a card that nobody uses, in bytes. Where this is not known for the card, by what is known of all cards."""

    own: int  # what its driver counts as used for itself; 0 where that is not known
    least: int  # so much more says nothing
    most: int  # and so much more may say nothing
    known: bool  # the driver told its reserve, or it is known for this card, and so is the rest


@cache
def _table() -> dict[str, list[dict[str, Any]]]:
    return load_table("cards")


def of_card(view: GpuView, gpu: Gpu, limit: CardLimit) -> float | None:
    """That limit for this card. None: not known for it."""
    given: float = getattr(view.limits, limit)
    if given > 0:
        return given
    return next((float(c["value"]) for c in _table()[limit] if _words(c["name"]) <= _words(gpu.name)), None)


def of_all(limit: CardLimit) -> tuple[float, ...]:
    """That limit of every card of which it is known."""
    return tuple(float(c["value"]) for c in _table()[limit])


def _words(name: str) -> set[str]:
    return set(name.replace("-", " ").split())


def at_rest(view: GpuView, gpu: Gpu) -> Rest:
    """What is in use on that card when nobody uses it."""
    told, assumed, floor = gpu.memory_reserved_bytes, of_card(view, gpu, "assumed_reserve_mib"), of_card(view, gpu, "idle_floor_mib")
    floors = of_all("idle_floor_mib") if floor is None else (floor,)
    counted = told is not None or assumed is not None
    own = told if told is not None else int((assumed or 0) * MIB)
    most = max(floors) + (0 if counted else max(of_all("assumed_reserve_mib")))
    return Rest(own=own, least=int(min(floors) * MIB), most=int(most * MIB), known=counted and floor is not None)


def unjudged(view: GpuView, gpu: Gpu, extra: int | None) -> str:
    """Memory of which nobody can say whether it is in use, in words; "" where there is none."""
    rest = at_rest(view, gpu)
    if extra is None or not rest.least < extra <= rest.most:
        return ""
    return f"{extra // MIB} MiB of GPU {gpu.index} belong to no listed process. {capital(rest_words(gpu))}"


def rest_words(gpu: Gpu) -> str:
    """That the memory in use of such a card at rest is not known."""
    return f"how much memory is in use on such a card at rest is {UNKNOWN} ({gpu.name})"


def power_span(gpu: Gpu) -> float | None:
    """W between the lowest and the highest sample; None where no power was read."""
    power = [s.power_w for s in gpu.samples if s.power_w is not None]
    return max(power) - min(power) if power else None


def flat_power(view: GpuView, gpu: Gpu) -> bool | None:
    """Whether its power stands at one value. None: it was not read in every sample, or what is flat is not known for this card."""
    limit, moved = of_card(view, gpu, "flat_power_w"), power_span(gpu)
    if limit is None or moved is None:
        return None
    if moved > limit:
        return False
    return True if all(s.power_w is not None for s in gpu.samples) else None
