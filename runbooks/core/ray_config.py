"""The fleet file's `ray` section: where the cluster's head is and what a normal start looks like."""


from pydantic import Field

from runbooks.core.argv import Argv
from runbooks.core.base import Frozen, Regex


class StartPhase(Frozen):
    """One phase of a job's start, in the order in which they happen."""

    name: str
    pattern: Regex  # Python regular expression; a log line that matches shows that the phase was reached
    usual_s: float = Field(gt=0)  # how long it usually lasts
    late_s: float = Field(gt=0)  # without a word for longer than this it is late
    silent: bool = False  # prints nothing while it works


class RayCluster(Frozen):
    """A Ray cluster. Its dashboard and logs are read on the head node, over the fleet's own connection."""

    head: str  # name of the fleet node on which the head runs
    dashboard: str = Field(default="http://127.0.0.1:8265", pattern=r"^https?://[^\s]+$")  # as seen from the head node
    gcs: str = Field(default="127.0.0.1:6379", pattern=r"^[^\s:]+:\d+$")  # as seen from the workers
    temp_dir: str = Field(default="/tmp/ray", pattern=r"^/")  # noqa: S108 - Ray's own default
    nodes: dict[str, str] = {}  # Ray node address -> fleet node name, where its logs are
    expected: dict[str, float] = {}  # resources when every node has joined: {GPU: 24}
    driver_log: str = ""  # glob on the head node of the driver's own log, if it is kept outside Ray
    phases: tuple[StartPhase, ...] = ()  # empty: the default set of the runbook
    restart_raylet: dict[str, Argv] = {}  # fleet node name -> argv that starts its raylet again
