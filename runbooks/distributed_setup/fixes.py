"""For each failed check the command (or the line) that fixes it. Nothing here is ever run."""

from runbooks.core.launch_config import Launch
from runbooks.core.verdict import Cause

MUST_NOT = (
    "do not raise time-outs before the checks pass: a node that cannot reach another never will",
    "do not set NCCL_IB_DISABLE or NCCL_P2P_DISABLE as a first try: they hide the fault and slow the job",
    "do not take an interface down on a node that you are connected through",
    "do not edit the training configuration without keeping a copy",
)
_FIXES = {
    "gpus-missing": "nvidia-smi -L   # on {subject}; then run zombie-gpu on it",
    "versions-differ": "pip freeze | grep -iE 'torch|nccl'; nvidia-smi   # on every node; install one version",
    "clock-skew": "chronyc makestep   # or: systemctl restart systemd-timesyncd, on {subject}",
    "no-interface": "export NCCL_SOCKET_IFNAME=<a name from `ip -br addr`>   # on {subject}",
    "interface-wrong": "export NCCL_SOCKET_IFNAME=^docker,lo,br-   # or the data interface's name, on every node",
    "two-nics-one-subnet": "ip route   # on {subject}: narrow the netmask or set a metric with its owner",
    "port-taken": "ss -ltnp 'sport = :{port}'   # on {subject}: use another port, or find out whose it is",
    "peer-unreachable": "nc -zv PEER {port}   # from {subject}; open the port in both directions",
    "shm-small": "mount -o remount,size={shm}G /dev/shm   # in a container: --shm-size={shm}g or --ipc=host",
    "rdma-missing": "apt-get install -y libibverbs1 ibverbs-providers; ls /sys/class/infiniband; ulimit -l unlimited",
    "environment-odd": "unset RANK WORLD_SIZE LOCAL_RANK MASTER_ADDR MASTER_PORT   # on {subject}: torchrun sets them",
    "launch-command": "torchrun --nnodes={nodes} --rdzv-backend=c10d --rdzv-endpoint=HOST:{port} --rdzv-id=NEW x.py",
}


def fix_for(cause: Cause, launch: Launch) -> str:
    """The command for one cause; for the configuration the corrected line."""
    corrected = [e for e in cause.evidence if e.startswith("corrected: ")]
    if corrected:
        return f"{cause.subject}: {corrected[0].removeprefix('corrected: ')}"
    text = _FIXES.get(cause.slug, "")
    if not text:
        return f"{cause.subject}: {cause.evidence[0]}"
    return text.format(subject=cause.subject, port=launch.port, shm=f"{launch.shm_gb:g}", nodes=len(launch.nodes))
