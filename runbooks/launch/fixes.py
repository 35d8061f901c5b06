"""For each failed check the command (or the line) that fixes it. Nothing here is ever run."""

import shlex

from runbooks.core.launch_config import Launch
from runbooks.core.verdict import Cause
from runbooks.launch.commands import set_before
from runbooks.launch.parsers.launch_kind import Kind, started_by
from runbooks.launch.visible import listed
from runbooks.parsers.address import is_loopback
from runbooks.parsers.torchrun_cmdline import parse_launch, with_options

MUST_NOT = (
    "raise time-outs before the checks pass: a node that cannot reach another never will",
    "set NCCL_IB_DISABLE or NCCL_P2P_DISABLE as a first try: they hide the fault and slow the job",
    "take an interface down on a node that you are connected through",
    "edit the training configuration without keeping a copy",
)
_FIXES = {
    "gpus-missing": "nvidia-smi -L   # on {subject}; then run zombie-gpu on it",
    "versions-differ": "{install}   # on every node; look with: pip freeze | grep -iE 'torch|nccl'; nvidia-smi",
    "clock-skew": "chronyc makestep   # or: systemctl restart systemd-timesyncd, on {subject}",
    "no-interface": "export NCCL_SOCKET_IFNAME=<a name from `ip -br addr`>   # on {subject}",
    "interface-wrong": "export NCCL_SOCKET_IFNAME=^docker,lo,br-   # or the data interface's name, on every node; containers that have "
    "only a bridge's address need the machine's network (--network=host)",
    "two-nics-one-subnet": "ip route   # on {subject}: narrow the netmask or set a metric with its owner",
    "port-taken": "{moved}   # or find out whose it is, on {subject}: ss -ltnp 'sport = :{port}'",
    "launcher-per-task": "srun --ntasks-per-node=1 torchrun …   # NODE_RANK from SLURM_NODEID; or no torchrun and a task for each GPU",
    "launch-already-there": "ps -o pid,lstart,args --ppid PID; squeue   # on {subject}: does that start go on? then do not start a second",
    "proxy-closes": "kubectl get pod POD -o jsonpath='{{.spec.containers[*].name}}'   # then without injection for training pods, "
    'sidecar.istio.io/inject: "false" in their template, and start the job again',
    "peer-unreachable": "iptables -I INPUT -p tcp --dport {port} -j ACCEPT   # on {peers}, then from {subject}: nc -zv ADDRESS {port}",
    "shm-small": "mount -o remount,size={shm}G /dev/shm   # in a container: --shm-size={shm}g or --ipc=host",
    "rdma-missing": "apt-get install -y libibverbs1 ibverbs-providers; ls /sys/class/infiniband; ulimit -l unlimited",
    "acs-redirects": "lspci -vvv | grep -E 'PCI bridge|ACSCtl'   # on {subject}; off in the BIOS with its owner, or iommu=pt",
    "environment-odd": "unset RANK WORLD_SIZE LOCAL_RANK MASTER_ADDR MASTER_PORT   # on {subject}: torchrun sets them",
    "launch-command": "{right}",
}


def fix_for(cause: Cause, launch: Launch) -> str:
    """The command for one cause; for the configuration the corrected line."""
    if cause.fix:
        return cause.fix
    text, right = _FIXES.get(cause.slug, ""), right_command(launch, launch.port)
    if not text or (cause.slug == "launch-command" and not right):
        return f"{cause.subject}: {cause.evidence[0]}"
    return text.format(
        subject=cause.subject,
        port=launch.port,
        shm=f"{launch.shm_gb:g}",
        peers=", ".join(dict.fromkeys(w.partition("-> ")[2].split(" ")[0] for w in cause.evidence if "-> " in w))
        or "the other node",
        install=_install(cause),
        right=right,
        moved=right_command(launch, launch.port + 1) or f"give the launch another port than {launch.port}",
    )


def _install(cause: Cause) -> str:
    """One version for all: the first node's."""
    version = cause.evidence[0].split("; ")[0].rpartition(": ")[2]
    package = {"torch": "torch", "nccl": "nvidia-nccl-cu12", "cuda": "torch"}.get(cause.subject)
    if package and cause.subject != "cuda":
        return f"pip install {package}=={version}"
    return f"install {cause.subject} {version}"


def right_command(launch: Launch, port: int) -> str:
    """The launch's own command line with what a launch over these nodes needs; "" where another launcher is to be corrected."""
    argv = list(launch.command)
    bare = bool(argv) and started_by(argv).kind is Kind.PYTHON and not set_before(launch)
    if bare:  # torchrun in Python's place
        argv = ["torchrun", *argv[next(i for i, w in enumerate(argv) if w.endswith(".py")) :]]
    parsed = parse_launch(argv, b"")
    if parsed is None:
        return ""
    if not parsed.script:
        argv.append("train.py")
    many, own = len(launch.nodes), address_parts(parsed.endpoint or parsed.master_addr)
    fits = parsed.min_nodes <= many <= parsed.max_nodes
    host = launch.nodes[0] if not own or is_loopback(own) else own
    etcd = parsed.backend.startswith("etcd")
    wanted = {
        "nnodes": "" if fits else str(many),
        "nproc-per-node": _per_node(launch) if bare or _too_many(parsed.per_node, launch) else "",
        "rdzv-backend": "c10d" if many > 1 and (parsed.backend == "static" or parsed.standalone) else "",
        "rdzv-endpoint": "" if etcd and not is_loopback(own) else f"{host}:{port}",
        "rdzv-id": "" if parsed.run_id != "none" else f"{launch.name}-1",
    }
    dropped = [w for w in argv if not (many > 1 and w == "--standalone")]
    return shlex.join(with_options(dropped, {k: v for k, v in wanted.items() if v}))


def _per_node(launch: Launch) -> str:
    """A process for each GPU; torchrun counts those of the node where the launch does not say."""
    most = _most(launch)
    return "gpu" if most is None else str(max(most, 1))


def _too_many(per_node: str, launch: Launch) -> bool:
    return per_node.isdecimal() and (most := _most(launch)) is not None and int(per_node) > most


def _most(launch: Launch) -> int | None:
    """Processes for which there are GPUs on a node, as far as the launch says it."""
    return min((n for n in (launch.gpus_per_node, listed(launch) or None) if n is not None), default=None)


def address_parts(endpoint: str) -> str:
    """The host of an endpoint."""
    host, _, port = endpoint.removeprefix("http://").removeprefix("https://").rstrip("/").rpartition(":")
    return host if host and port.isdecimal() else f"{host}:{port}".lstrip(":")
