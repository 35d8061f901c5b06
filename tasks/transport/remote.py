"""How a command is wrapped on a node, so that it ends there in time and tells its pid; and how the answer is read."""

import math
import shlex
from collections.abc import Sequence

END_S = 2  # between TERM and KILL on the node

# $1 marker, $2 seconds, $3 "t" where `timeout -k` is known to be there; then the command. The marker line goes first on
# both streams, so that what a login script prints can be told from the command's own output.
_SCRIPT = """\
m=$1 l=$2 k=$3; shift 3
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin:/usr/local/nvidia/bin
s=run
command -v "$1" >/dev/null 2>&1 || { s=missing; [ ! -e "$1" ] || s=denied; }
[ $s != run ] || [ "$k" = t ] || { timeout -k 2 9 true </dev/null >/dev/null 2>&1 && k=t || k=s; }
echo "$m$$ $s $k"; echo "$m$$ $s $k" >&2
[ $s = run ] || exit 127
[ $k = s ] || exec timeout -k 2 "$l" "$@"
exec 3<&0
"$@" <&3 3<&- &
c=$!
(sleep "$l"; kill -TERM $c; sleep 2; kill -KILL $c) </dev/null >/dev/null 2>&1 3<&- &
w=$!
wait $c; r=$?
kill $w 2>/dev/null
exit $r"""

# $1 pid of the wrapper, which leads its group: ends the group, waits 2 s, says "gone" or the states of what is left.
_STOP = """\
g=$1; i=0
kill -TERM -"$g" 2>/dev/null; kill -CONT -"$g" 2>/dev/null
kill -KILL -"$g" "$g" 2>/dev/null
while [ $i -lt 20 ]; do
  left=
  for p in /proc/[0-9]*/stat; do
    { read -r x <"$p"; } 2>/dev/null || continue
    set -- ${x##*) }
    [ "$3" != "$g" ] || [ "$1" = Z ] || left="$left$1"
  done
  [ -n "$left" ] || { echo gone; exit 0; }
  i=$((i+1)); sleep 0.1
done
echo left $left"""


def wrap(argv: Sequence[str], marker: str, timeout_s: float, knows_timeout: bool) -> str:
    """The command line for the node's shell."""
    head = ["sh", "-c", _SCRIPT, "sh", marker, str(max(1, math.ceil(timeout_s))), "t" if knows_timeout else "-"]
    return shlex.join([*head, *argv])


def wrap_stop(pid: int) -> str:
    """The command line that ends what was started with that pid."""
    return shlex.join(["sh", "-c", _STOP, "sh", str(pid)])


class MarkerLine:
    """What the marker line told: pid, whether the command was started, whether `timeout -k` is there."""

    def __init__(self, line: str | None) -> None:
        words = (line or "").split()
        whole = len(words) == 3 and words[0].isdecimal()
        self.pid = int(words[0]) if whole else 0
        self.state = words[1] if whole else ""
        self.has_timeout = whole and words[2] == "t"


def ran_out(exit_code: int, seconds: float, timeout_s: float) -> bool:
    """True if that exit came from the node's time limit (124, or the signal's number where it had to be killed)."""
    return exit_code in (124, 137, 143) and seconds >= max(1, math.ceil(timeout_s)) - 0.2
