"""A Ray worker in a container on a real engine, in the network namespace of a real head; and a way in from outside.

The image holds links only: programs, libraries and Ray's environment are this machine's, bound read-only.
"""

import ctypes
import os
import selectors
import socket
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tests.support.docker_engine import Engine, docker_engine
from tests.support.ray_cluster import DASHBOARD, GCS, RayCluster

IP, FLOOR_IP = "127.0.0.7", "127.0.0.8"  # the watched worker; one that is started by hand beside it
IMAGE = "rayworker:1"
CLONE_NEWNET = 0x40000000
SETUP = (("sh", "-c", "mkdir -p /root/.ssh && echo 'set up (with \"quotes\")' > /root/done"),)


def start_argv(cluster: RayCluster, ip: str = IP) -> tuple[str, ...]:
    """Joins the head, returns when the raylet is up."""
    n = ip[-1]
    return (
        str(cluster.bin / "ray"), "start", f"--address={GCS}", f"--node-ip-address={ip}", "--num-cpus=1",
        "--object-store-memory=80000000", "--disable-usage-stats", f"--min-worker-port=30{n}00", f"--max-worker-port=30{n}99",
        f"--dashboard-agent-listen-port=2639{n}",
    )  # fmt: skip


def options(cluster: RayCluster) -> tuple[str, ...]:
    """How a worker's container is run."""
    venv = cluster.bin.parent
    wanted = ("HOME", "RAY_")
    env = [w for k, v in cluster.env().items() if k.startswith(wanted) for w in ("-e", f"{k}={v}")]
    python = (venv / "bin" / "python").resolve().parents[1]  # may lie outside /usr
    places = dict.fromkeys(["/usr", "/etc", str(venv.resolve()), *(() if python.is_relative_to("/usr") else (str(python),))])
    binds = [w for p in places for w in ("-v", f"{p}:{p}:ro")]
    path = f"{cluster.bin}:/usr/bin:/bin"
    home = ("-v", f"{cluster.folder}/ray_bootstrap_config.yaml:{cluster.folder}/ray_bootstrap_config.yaml:ro")
    return (*env, "-e", f"PATH={path}", *binds, *home, "--shm-size=200m")


def make_image(engine: Engine) -> None:
    """Imports the image: the folders and links that programs of this machine expect."""
    root = engine.folder / "rayroot"
    for name in ("usr", "etc", "tmp", "proc", "sys", "dev", "root", "var", "run"):
        (root / name).mkdir(parents=True, exist_ok=True)
    for name in ("bin", "sbin", "lib", "lib64"):
        (root / name).symlink_to(f"usr/{name}")
    tar = engine.folder / "ray.tar"
    with tarfile.open(tar, "w") as archive:
        archive.add(root, ".")
    engine.run("import", str(tar), IMAGE)


def run_worker(engine: Engine, cluster: RayCluster, name: str) -> str:
    """`docker run` of a worker's container, kept alive by a sleep; its id."""
    more = options(cluster)
    return engine.run(
        "run", "-d", "--pull=never", "--network=host", "--name", name, *more, IMAGE, "sleep", "infinity"
    )


def living(cluster: RayCluster, ip: str = IP) -> frozenset[str]:
    """Ids of the nodes that the head calls alive at the worker's address."""
    import json

    url = f"{DASHBOARD}/api/v0/nodes?detail=1&limit=1000"
    got = cluster.run("curl", "-s", "--max-time", "5", url).stdout
    rows = json.loads(got)["data"]["result"]["result"] if got else []
    return frozenset(r["node_id"] for r in rows if r["node_ip"] == ip and r["state"] == "ALIVE")


@contextmanager
def way_in(netns: str, host: str, port: int | str) -> Iterator[int]:
    """A loopback port of this machine that leads to `host:port` inside the namespace."""
    door = socket.create_server(("127.0.0.1", 0))

    def inside() -> socket.socket:
        fd = os.open(f"/run/netns/{netns}", os.O_RDONLY)
        assert ctypes.CDLL(None, use_errno=True).setns(fd, CLONE_NEWNET) == 0  # this thread alone
        os.close(fd)
        return socket.create_connection((host, int(port)), timeout=10)

    def carry(caller: socket.socket) -> None:
        with suppress(OSError), caller, inside() as there, selectors.DefaultSelector() as ready:
            for a, b in ((caller, there), (there, caller)):
                ready.register(a, selectors.EVENT_READ, b)
            while True:
                for key, _ in ready.select():
                    data = key.fileobj.recv(65536)  # type: ignore[union-attr]
                    if not data:
                        return
                    key.data.sendall(data)

    def serve() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=carry, args=(door.accept()[0],), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield int(door.getsockname()[1])
    finally:
        door.close()


@contextmanager
def worker_room(cluster: RayCluster) -> Iterator[tuple[Engine, str]]:
    """An engine beside the head, with the image; and the dashboard's address from outside the namespace."""
    host, port = DASHBOARD.removeprefix("http://").split(":")
    with docker_engine(inside=cluster.netns) as engine, way_in(cluster.netns, host, port) as at:
        make_image(engine)
        yield engine, f"http://127.0.0.1:{at}"
