"""What RunPod says it could give: stock of GPU types, everywhere and in one data centre; network volumes. Pure."""

from typing import Any

from runbooks.core.base import Frozen


class TypeStock(Frozen):
    """One GPU type. Stock is the provider's own word (High, Medium, Low); empty: none now."""

    id: str
    name: str
    memory_gb: int = 0
    anywhere: str = ""
    here: str = ""  # in the data centre that was asked for
    in_cloud: str = ""  # in the cloud that was asked for, anywhere
    here_in_cloud: str = ""  # in that cloud, in that data centre


class Volume(Frozen):
    """A network volume: it binds every pod that uses it to its data centre."""

    id: str
    name: str
    data_center: str


def parse_stock(data: Any) -> tuple[TypeStock, ...]:
    """GraphQL's `gpuTypes` with `anywhere` and what else was asked. Raises ValueError, KeyError, TypeError."""
    if not isinstance(data, list):
        raise ValueError("no list of GPU types")
    return tuple(
        TypeStock(id=str(d["id"]), name=str(d.get("displayName") or d["id"]), memory_gb=int(d.get("memoryInGb") or 0),
                  anywhere=_word(d.get("anywhere")), here=_word(d.get("here")), in_cloud=_word(d.get("in_cloud")),
                  here_in_cloud=_word(d.get("here_in_cloud")))
        for d in data
    )  # fmt: skip


def _word(price: Any) -> str:
    """The stock's word; null, an empty word and "None" all mean that there is none."""
    said = str((price or {}).get("stockStatus") or "")
    return "" if said.lower() in ("none", "out_of_stock", "unavailable") else said[:20]


def parse_volumes(data: Any) -> tuple[Volume, ...]:
    """REST v1's network volumes. Raises ValueError, KeyError, TypeError."""
    if not isinstance(data, list):
        raise ValueError("no list of network volumes")
    return tuple(
        Volume(id=str(d["id"]), name=str(d.get("name") or ""), data_center=str(d["dataCenterId"])) for d in data
    )
