"""The log of Ray's autoscaler (monitor.log): an error that comes at every turn, and the record of an instance that it stumbles over."""

import re
from collections import Counter
from collections.abc import Sequence

from runbooks.core.base import Frozen
from runbooks.ray.parsers.ray_log import is_exception

_STAMP = re.compile(r"^\[?\d{4}-\d\d-\d\d[ T][\d:,.]+\S*\]?\s*")
_ERROR = re.compile(r"^(?:ERROR|CRITICAL)\b|\b(?:ERROR|CRITICAL) [\w.]+:\d+\b")
_FIELD = r"{}\W{{1,4}}([\w.:-]+)"
AGAIN = 3  # the same error at so many turns is no accident


class Repeated(Frozen):
    """An error that comes again and again."""

    line: str
    times: int


class Instance(Frozen):
    """A record of the instance manager."""

    node_id: str  # Ray's id of the node
    cloud_id: str
    status: str


def repeated(lines: Sequence[str]) -> Repeated | None:
    """The first error that stands there at least three times, whatever time stands before it; None where there is none."""
    errors = [text for text in (_STAMP.sub("", line).strip() for line in lines) if _ERROR.search(text) or is_exception(text)]
    many = Counter(errors)
    first = next((x for x in errors if many[x] >= AGAIN), None)
    return Repeated(line=first, times=many[first]) if first else None


def stale_instance(text: str) -> Instance | None:
    """The last record that has no Ray node beside it although it says that it runs; None where none is told so."""
    at = text.rfind("ray_node=None")
    if at < 0:
        return None
    part = text[max(0, at - 400) : at + 2000]
    node, cloud, status = (re.search(_FIELD.format(name), part) for name in ("node_id", "cloud_instance_id", "status"))
    if not node or not status:
        return None
    return Instance(node_id=node[1], cloud_id=cloud[1] if cloud else "?", status=status[1])
