"""GPU types with their stock, and times, as RunPod gives them, for the stand-in of the provider."""

import re
import time
from typing import Any

GPU = {"id": "NVIDIA GeForce RTX 4090", "displayName": "RTX 4090", "memoryInGb": 24, "maxGpuCount": 8}
TYPES = (GPU, {"id": "NVIDIA RTX A6000", "displayName": "RTX A6000", "memoryInGb": 48, "maxGpuCount": 8})
Stock = dict[tuple[str, str], str]  # (GPU type's id, data centre, "/COMMUNITY" behind it for that cloud) -> High, Medium, Low


def stamp(at: float) -> str:
    """A time as the provider writes it."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(at)) + ".123 +0000 UTC"


def gpu_types(stock: Stock, query: str, given: dict[str, Any]) -> list[dict[str, Any]]:
    """`gpuTypes`: one by its id or all; `lowestPrice` under every name that the query gives it."""
    one = re.search(r'gpuTypes\(input: \{id: "([^"]+)"', query)
    named = re.findall(r"(\w+): lowestPrice\(input: \{([^}]*)\}", query)
    asked = named or [("lowestPrice", "")] * ("lowestPrice" in query)
    place, secure = str(given.get("place", "")), given.get("secure")
    return [
        t | {name: _price(stock, str(t["id"]), place if "dataCenterId" in words else "", secure if "secureCloud" in words else None)
             for name, words in asked}
        for t in TYPES
        if one is None or t["id"] == one[1]
    ]


def _price(stock: Stock, kind: str, place: str, secure: bool | None) -> dict[str, Any]:
    """The lowest price and stock of a type; all null where there is none."""
    mine = [(where.partition("/"), word) for (k, where), word in stock.items() if k == kind]
    words = [w for (centre, _, cloud), w in mine if place in ("", centre) and secure in (None, cloud != "COMMUNITY")]
    best = next((w for w in ("High", "Medium", "Low") if w in words), None)
    return {
        "stockStatus": best,
        "minimumBidPrice": 0.3 if best else None,
        "uninterruptablePrice": 0.6 if best else None,
    }
