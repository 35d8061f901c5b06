"""Whether the living nodes could place a request at all, however long it waits: by what each has, not by what is free. Pure."""

import json
from collections.abc import Iterator, Mapping, Sequence

from runbooks.core.reading import ODD_ANSWER, value_of
from runbooks.core.verdict import Cause, Certainty
from runbooks.ray.evidence import Evidence
from runbooks.ray.words import cause

Amounts = Mapping[str, float]  # by the resource's name
Request = Sequence[Amounts]  # bundles that are placed together or not at all, each on one node
ROUNDING = 1e-6  # Ray counts in ten-thousandths


def no_such_resource(e: Evidence, requests: Sequence[Request], subject: str) -> Cause | None:
    """What the nodes do not have, not in such pieces, or not as much of as one request wants at once: waiting in turn does not bring it."""
    nodes, usage = value_of(e.nodes), value_of(e.usage)
    coming = usage.coming if usage else ()
    if nodes is None and usage is not None:
        totals = {name: total for name, (_, total) in usage.usage.items()}
        words = _once(line for r in requests for line in _beyond_totals(r, totals))
        sure = Certainty.POSSIBLE if coming else Certainty.LIKELY
        return cause("no-such-resource", sure, subject, *words, decides=("the resources of each node",)) if words else None
    alive = _living(e)
    told = _once(line for r in requests for line in _beyond(r, alive)) if alive else ()
    if not told:
        return None
    check = ("whether a node that has it is to come: the autoscaler's log (monitor.log on the head), the spelling of the name",)
    awaited = f"nodes that the autoscaler waits for: {', '.join(coming)}" if coming else ""
    sure = Certainty.POSSIBLE if coming else Certainty.CONFIRMED
    return cause("no-such-resource", sure, subject, *told, awaited, f"{len(alive)} nodes are alive", decides=check)


def placed_when_empty(e: Evidence, request: Request) -> bool:
    """Whether a place for each bundle was found, the largest first, if nobody else held anything. False: none was found in that order."""
    left = [dict(n) for n in _living(e)]
    for bundle in sorted(request, key=lambda b: sum(b.values()), reverse=True):
        node = next((n for n in left if _has(n, bundle)), None)
        if node is None:
            return False
        for name, amount in bundle.items():
            node[name] = node.get(name, 0.0) - amount
    return True


def all_of(request: Request) -> dict[str, float]:
    """All of a request, by resource."""
    every: dict[str, float] = {}
    for name, amount in (item for bundle in request for item in bundle.items()):
        every[name] = every.get(name, 0.0) + amount
    return every


def packed_on_one_node(e: Evidence, request: Request) -> bool:
    """Whether a pending demand of these very bundles says STRICT_PACK. Every such demand must: a group's record has no strategy."""
    usage = value_of(e.usage)
    groups = [g for words in (usage.demands if usage else ()) if (g := _group_demand(words))]
    said = [strategy for strategy, wanted in groups if wanted == all_of(request)]
    return bool(said) and all(s == "STRICT_PACK" for s in said)


def _group_demand(words: str) -> tuple[str, dict[str, float]] | None:
    """(strategy, all that it wants) of a placement group's demand, `[{"strategy", "bundles": [[bundle, count]]}, times]`."""
    try:
        demand = json.loads(words)[0]
        bundles = [b for b, count in demand["bundles"] for _ in range(int(count))]
        return str(demand["strategy"]), all_of(bundles)
    except ODD_ANSWER:
        return None  # a demand of tasks, or words that were cut


def _living(e: Evidence) -> list[dict[str, float]]:
    return [n.resources for n in value_of(e.nodes) or () if n.alive]


def _has(node: Amounts, bundle: Amounts) -> bool:
    return all(amount <= node.get(name, 0.0) + ROUNDING for name, amount in bundle.items())


def _beyond(request: Request, nodes: Sequence[Amounts]) -> Iterator[str]:
    """What empty nodes could not give: a resource to one bundle, one bundle's resources together, or all bundles at once."""
    for name, amount in all_of(request).items():
        parts = sorted((b[name] for b in request if b.get(name, 0.0) > 0), reverse=True)
        have = [n.get(name, 0.0) for n in nodes]
        if not parts:
            continue
        if parts[0] > max(have) + ROUNDING:
            yield f"{parts[0]:g} {name} on one node: " + (f"no node has more than {max(have):g}" if max(have) else "no node has any")
        elif amount > sum(have) + ROUNDING:
            yield f"{amount:g} {name} at once, in {len(parts)} bundles: all living nodes together have {sum(have):g}"
        else:
            yield from _too_many(name, parts, have)
    for bundle in request:
        if not any(_has(n, bundle) for n in nodes) and all(any(_has(n, {k: v}) for n in nodes) for k, v in bundle.items()):
            yield f"{', '.join(f'{v:g} {k}' for k, v in bundle.items())} on one node: no node has all of it"


def _too_many(name: str, parts: Sequence[float], have: Sequence[float]) -> Iterator[str]:
    """More parts of one size than fit: each node has room for whole ones only. `parts`: the largest first."""
    for count, part in enumerate(parts, 1):
        room = sum(int(h / part + ROUNDING) for h in have)
        if count > room:
            yield f"{count} bundles of {part:g} {name} at once: the nodes have room for {room}, each for whole ones only"
            return


def _beyond_totals(request: Request, totals: Amounts) -> Iterator[str]:
    for name, amount in all_of(request).items():
        have = totals.get(name, 0.0)
        if amount > have + ROUNDING:
            yield f"{amount:g} {name} at once: the cluster's totals have {f'{have:g}' if have else 'none'}"


def _once(lines: Iterator[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(lines))
