"""What the leader of the fleet file counts of each node."""

from runbooks.core.base import Frozen


class LeaderPeer(Frozen):
    """What the leader believes of one node."""

    node: str
    jobs: int  # selfplay_jobs (+ training_jobs where given)
    gpu_percent: float | None = None
    last_seen_s: float | None = None  # age of its last heartbeat


class LeaderView(Frozen):
    """The leader's /status at one moment."""

    node_id: str
    is_leader: bool
    leader_id: str = ""
    peers: tuple[LeaderPeer, ...]
    url: str = ""  # base URL that was asked, without credentials: where a job count would be reset
    zombies: tuple[str, ...] = ()  # idle_detection_stats.zombie_nodes
