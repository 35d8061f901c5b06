"""What a text alone may advise: every cause is a candidate behind its check, and what destroys or restarts is held back.

A text names a cause and never holds the reading that decides; so a remedy that deletes, rebuilds, resets or restarts is
not shown for it. The runbook that reads the machine offers it, after that reading. Pure.
"""

import re
from collections.abc import Sequence

HARD = re.compile(
    r"\b(?:delet\w*|remov\w*|rm|rmdir|drop (?:it|them|all|any|every|final|duplicate)|release (?:what|it|them|the|all)|free what|"
    r"prun\w+|purg\w+|wip\w+|eras\w+|discard\w*|truncat\w+|overwrit\w+|abort\w*|"
    r"rebuil\w+|re-?creat\w+|re-?install\w*|re-?format\w*|fsck|set (?:it|them|this one|the \w+(?: \w+)?) aside|quarantin\w+|"
    r"make a new one|(?:start|make|submit)\b[^;.]*\b(?:anew|again)|boot(?:s|ed|ing)? (?:the|it)|"
    r"reset\w*|re-?boot\w*|power (?:off|cycl\w+)|re-?start\w*|re-?spawn\w*|re-?launch\w*|resubmit\w*|reschedul\w+|"
    r"(?:start|run|create|deploy|build|fetch)\w*\b[^;.]*\bagain|build[^;.]* from the data|bring the containers back|"
    r"empty (?:it|the)|clear the|free (?:the|space)|reject the|re-?mount\w*|u?n?mount (?:it|lazily)|unmount\w*|kill\w*|terminat\w+|"
    r"(?:end|stop)(?:s|ed|ing)? (?:its?|them|that|those|these|this|the|exactly|all|any|every)\b|evict\w*|drain\w*|cordon\w*|"
    r"rotat\w+|roll\w* back|revert\w*|downgrad\w+|compact\w*|defragment\w*|replace the (?:pod|container|node|machine))\b",
    re.IGNORECASE,
)
LOOKS_FIRST = re.compile(
    r"\b(?:before|never|not|nothing|no (?:need|restart)|without|instead of|who|whether|why)\b[^;.,]*?"
    r"\b(?:delet|remov|reset|restart|kill|end|stop|chang|clean|remount|rebuil|rotat)\w*",
    re.IGNORECASE,
)
CLAUSE = re.compile(r"(?<=[;.])\s+")
AFTER_CHECK = "what it would take changes or ends something: not said on a text's word"


def mild(remedy: str) -> tuple[str, bool]:
    """The remedy up to the first clause that destroys or restarts; whether any was left out. What comes after builds on it."""
    clauses = CLAUSE.split(" ".join(remedy.split()))
    hard = next((i for i, c in enumerate(clauses) if HARD.search(LOOKS_FIRST.sub("", c))), len(clauses))
    kept = " ".join(clauses[:hard])
    if kept.count("(") > kept.count(")"):  # cut within an aside
        kept = kept[: kept.rindex("(")]
    return kept.rstrip(";, "), hard < len(clauses)


def behind_check(decided_by: Sequence[str], remedy: str, held_back: bool) -> str:
    """The advice as a condition: what must be looked at, and only then what to do."""
    check = " ".join(decided_by[0].split()).rstrip(".") if decided_by else "a reading of the machine"
    words = [w for w in (remedy, AFTER_CHECK if held_back else "") if w]
    return f"if this check shows it ({check}): {'; '.join(w.rstrip('.') for w in words)}."
