"""Commands that a person types instead of a step, from the arguments that are carried out. Pure."""

import shlex

from runbooks.core.args.containers import RestartApplication

# every process in the container whose command line matches, but its first one and this shell itself
_MATCHING = (
    "for p in /proc/[0-9]*; do p=${p#/proc/}; [ $p != 1 ] && [ $p != $$ ] && cat /proc/$p/cmdline 2>/dev/null"
    """ | tr "\\0" " " | grep -qE -- "$1" && kill -$2 $p; done; true"""
)


def starting_again(args: RestartApplication) -> tuple[str, ...]:
    """What is left of the application is ended: TERM, five seconds, KILL. Then it is started."""
    inside = (*args.engine, "exec")
    end = (*inside, args.id[:12], "sh", "-c", _MATCHING, "sh", args.match)
    start = (*inside, *(["-d"] if args.detached else []), args.id[:12], *args.start)
    return (shlex.join((*end, "TERM")), "sleep 5", shlex.join((*end, "KILL")), shlex.join(start))
