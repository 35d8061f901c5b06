"""Puts saved keys back, only where no key of that run exists. The rendezvous key comes first, folders before it.

Argument: endpoint, tls, auth, puts [{key, value, dir, ttl}] in order. A key that is there with the saved value was put back
by an earlier, interrupted restore and is left; any other one ends it. Answer: done [[key, result]], stopped.
"""

import json
import sys
from typing import Any

from tasks.rendezvous.probes.rdzv_http import call, key_url, opener

WANTS = {"endpoint": "str", "tls": "dict", "auth": "dict?", "puts": "list"}


def there(client: "Any", base: str, put: "dict[str, Any]") -> "str | None":
    """None when the key is free, else what is there: "same" or "other"."""
    answer = call(client, "GET", key_url(base, put["key"], quorum="true"))
    if answer.get("status") == 404 and '"errorCode":100' in answer.get("body", ""):
        return None
    if answer.get("status") != 200:
        raise OSError("etcd does not say whether %s is there" % put["key"])
    node = json.loads(answer["body"])["node"]
    if put["dir"]:
        return "same" if node.get("dir") else "other"
    return "same" if node.get("value") == put["value"] else "other"


def write(client: "Any", base: str, put: "dict[str, Any]") -> str:
    """One key, only if it does not exist."""
    form = {"dir": "true"} if put["dir"] else {"value": put["value"] or ""}
    if put["ttl"]:
        form["ttl"] = put["ttl"]
    answer = call(client, "PUT", key_url(base, put["key"], prevExist="false"), form=form)
    if answer.get("status") not in (200, 201):
        raise OSError("%s was not written: %s" % (put["key"], answer.get("what") or answer.get("body", "")[:200]))
    return "written"


def main() -> None:
    """Answer on standard output."""
    ask = json.loads(sys.argv[1])
    client, base = opener(ask), ask["endpoint"].rstrip("/")
    done, stopped = [], None  # type: list[Any], Any
    try:
        found = [there(client, base, put) for put in ask["puts"]]
        if "other" in found:
            raise OSError("%s exists with another value" % ask["puts"][found.index("other")]["key"])
        for put, state in zip(ask["puts"], found):  # noqa: B905
            done.append([put["key"], "there" if state else write(client, base, put)])
    except (OSError, ValueError, KeyError, TypeError) as e:
        stopped = str(e) if isinstance(e, OSError) else "not an answer of etcd: %r" % e
    print(json.dumps({"done": done, "stopped": stopped}))


main()
