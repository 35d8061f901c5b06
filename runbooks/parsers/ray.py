"""Ray's dashboard JSON (version, nodes, jobs, actors, placement groups, cluster status) as plain types."""

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from runbooks.core.ray_view import RayNode, Versions
from runbooks.parsers.fields import given


def from_ms(value: Any) -> datetime | None:
    """Ray's milliseconds since 1970; 0, None and -1 mean none."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return datetime.fromtimestamp(number / 1000, UTC) if number > 0 else None


def rows(text: str) -> tuple[list[dict[str, Any]], int]:
    """The list of a State API answer and how many there are in all. Raises one of ODD_ANSWER, a ValueError with Ray's own words."""
    found = json.loads(text)
    if not isinstance(found, Mapping) or found.get("result") is not True:
        raise ValueError(str(found.get("msg") if isinstance(found, Mapping) else found)[:300])
    result = found["data"]["result"]
    listed = given(result, "result", list)
    return listed, int(result.get("total") or len(listed))


def parse_ray_version(text: str) -> str:
    """`/api/version`: Ray's own version."""
    version = json.loads(text).get("ray_version")
    if not isinstance(version, str):
        raise ValueError("no ray_version")
    return version


def parse_versions(text: str) -> Versions:
    """"2.60.0 3.11.7" as Ray's version and its Python's; anything else is unknown."""
    found = re.fullmatch(r"(\d+\.\d+[\w.+-]{0,30}) (\d+\.\d+\.\d+\S{0,20})\s*", text)
    return Versions(ray=found[1], python=found[2]) if found else Versions()


def parse_nodes(text: str) -> tuple[RayNode, ...]:
    """`/api/v0/nodes?detail=1`, dead ones too."""
    return tuple(_node(x) for x in rows(text)[0])


def _node(x: Mapping[str, Any]) -> RayNode:
    alive = given(x, "state", str) == "ALIVE"
    resources = given(x, "resources_total", dict) if alive else x.get("resources_total") or {}
    return RayNode(
        node_id=x["node_id"],
        ip=x.get("node_ip") or "",
        alive=alive,
        is_head=bool(x.get("is_head_node")),
        started_at=from_ms(x.get("start_time_ms")),
        ended_at=from_ms(x.get("end_time_ms")),
        resources={k: float(v) for k, v in resources.items() if not k.startswith("node:")},
        message=str(x.get("state_message") or "")[:300],
    )
