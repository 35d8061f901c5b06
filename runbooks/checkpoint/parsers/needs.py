"""Files that a checkpoint of several must have, as its own names and contents say it. Python 3.8, stdlib only."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

OF = re.compile(r"(?P<before>.*-)(?P<number>\d{5})(?P<of>-of-(?P<count>\d{5})\.(?:safetensors|bin))$")  # as Hugging Face names them
ZERO = re.compile(  # as DeepSpeed names them
    r"(?P<before>(?:.*/)?(?:\w+_)?zero_pp_rank_)(?P<rank>\d+)(?P<after>_mp_rank_\d+_(?:optim|model)_states\.pt)$"
)
SHARD = re.compile(r"(?:.*/)?__(\d+)_\d+\.distcp$")  # as torch names them
MOST = 100_000  # ranks


def shard_ranks(names: Iterable[str]) -> set[int]:
    """The ranks that wrote those shards of a distributed checkpoint."""
    return {int(m[1]) for m in map(SHARD.match, names) if m}


def to_be_escaped(key: str) -> list[str]:
    """Characters of an object's key that a URL does not carry as they are."""
    return sorted({c for c in key if not (c.isascii() and c.isalnum()) and c not in "/._-~"})


def needs_of(names: Iterable[str], scalars: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
    """File -> its bytes, -1 where only its presence is known. `scalars` are the plain values in each file that was read."""
    known = list(names)
    ranks = max((n for s in scalars.values() if isinstance(n := s.get("dp_world_size"), int)), default=0)
    out: dict[str, int] = {}
    for name in known:
        part, zero = OF.fullmatch(name), ZERO.fullmatch(name)
        if part and int(part["count"]) <= MOST:
            out.update({f"{part['before']}{n:05d}{part['of']}": -1 for n in range(1, int(part["count"]) + 1)})
        elif zero and ranks <= MOST:
            out.update({f"{zero['before']}{n}{zero['after']}": -1 for n in range(ranks)})
    return out
