"""Deletes exactly the listed keys of one run, in order, each only while it is as it was judged. Dying half-way is safe.

Argument: endpoint, tls, auth, guard [key, index] or null, absent (key that must not exist while guard is null),
keys [[key, index or null for a directory]]. Before each deletion the guard is looked at again: a newcomer changes it.
What is left once the guard itself is gone (a counter, empty folders) stays as soon as a new run has begun.
"""

import json
import sys
from typing import Any

from tasks.rendezvous.probes.rdzv_http import call, index_of, key_url, opener

WANTS = {"endpoint": "str", "tls": "dict", "auth": "dict?", "guard": "list?", "absent": "str", "keys": "list"}


class DeletionStopped(Exception):
    """Somebody wrote in between, or etcd did not answer."""


def check(client: "Any", base: str, ask: "dict[str, Any]") -> None:
    """The rendezvous key is as it was judged."""
    key, index = ask["guard"] or (ask["absent"], None)
    if not key:
        return
    now = index_of(client, base, key)
    if now != index:
        raise DeletionStopped("%s has index %s now, it was judged at %s: somebody joined" % (key, now, index))


def delete(client: "Any", base: str, key: str, index: "int | None") -> str:
    """One key, guarded by its index; a directory only while it is empty."""
    query = {"dir": "true"} if index is None else {"prevIndex": index}
    answer = call(client, "DELETE", key_url(base, key, **query))
    body = answer.get("body", "")
    if answer.get("status") == 200:
        return "deleted"
    if '"errorCode":100' in body:
        return "gone"
    raise DeletionStopped("%s was not deleted: %s" % (key, answer.get("what") or body[:200]))


def main() -> None:
    """Answer on standard output: done [[key, result]], stopped (text or null)."""
    ask = json.loads(sys.argv[1])
    client, base = opener(ask), ask["endpoint"].rstrip("/")
    done, stopped, guarded = [], None, True  # type: list[Any], Any, bool
    try:
        for key, index in ask["keys"]:
            if guarded:
                check(client, base, ask)
            elif index_of(client, base, ask["absent"]) is not None:
                done.append([key, "left, a new run has started"])
                break
            done.append([key, delete(client, base, key, index)])
            if ask["guard"] and key == ask["guard"][0]:
                guarded = False
    except (DeletionStopped, OSError, ValueError, KeyError, TypeError) as e:
        stopped = str(e) if isinstance(e, (DeletionStopped, OSError)) else "not an answer of etcd: %r" % e
    print(json.dumps({"done": done, "stopped": stopped}))


main()
