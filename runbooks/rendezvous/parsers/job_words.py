"""Forms of lines in a job's words: counts at torch's barrier, names that a resolver did not find. Their meaning is judged elsewhere."""

import re

_WAITS = re.compile(r"\bstore[- ]based barrier\b.*\bkey: ?(?P<key>[\w:.-]+).*\bworld_size=(?P<world>\d+), worker_count=(?P<came>\d+)")
_NOT_FOUND = re.compile(  # gai_strerror of glibc, musl and macOS; nslookup of bind and BusyBox
    r"(?i)name or service not known|(?:temporary|non-recoverable) failure in name resolution|name does not resolve"
    r"|no address associated with (?:host)?name|nodename nor servname provided|can't (?:resolve|find) |NXDOMAIN"
)


def barrier_counts(text: str) -> dict[str, tuple[int, int]]:
    """By the key of each barrier, from its last line: workers that came, and workers that it waits for."""
    return {m["key"]: (int(m["came"]), int(m["world"])) for m in map(_WAITS.search, text.splitlines()) if m}


def not_found(name: str, text: str) -> str:
    """The first line that says that this very name cannot be looked up, "" if there is none."""
    whole = re.compile(rf"(?<![\w.-]){re.escape(name)}(?![\w-])")
    return next((x.strip() for x in text.splitlines() if _NOT_FOUND.search(x) and whole.search(x)), "")
