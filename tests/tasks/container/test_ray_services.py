"""Which processes of a Ray node serve it, by the command lines that a real node of Ray 2.60 has; all others are at work when they move."""

import re

import pytest

from tasks.container.at_work import RAY_SERVICES

PACKAGE = "/opt/venv/lib/python3.11/site-packages/ray"


@pytest.mark.parametrize(
    "line",
    [
        f"{PACKAGE}/core/src/ray/raylet/raylet --raylet_socket_name=/tmp/ray/session_1/sockets/raylet",
        f"{PACKAGE}/core/src/ray/gcs/gcs_server --log_dir=/tmp/ray/session_1/logs",
        f"/usr/bin/python3.11 -u {PACKAGE}/_private/log_monitor.py --session-dir=/tmp/ray/session_1",
        f"/usr/bin/python3.11 -u {PACKAGE}/autoscaler/_private/monitor.py --logs-dir=/tmp/ray/session_1/logs",
        f"/usr/bin/python3.11 {PACKAGE}/dashboard/dashboard.py --host=127.0.0.2",
        "/usr/bin/python3.11 -m ray.util.client.server --address=127.0.0.2:26379",
        "/usr/bin/python3.11 /usr/local/bin/ray start --block --address=10.0.0.1:6379",
        "ray::DashboardAgent",
        "ray::RuntimeEnvAgent",
    ],
)
def test_a_service(line: str) -> None:
    assert re.search(RAY_SERVICES, line)


@pytest.mark.parametrize(
    "line",
    [
        "ray::Trainer.step()",
        "ray::IDLE",
        f"/usr/bin/python3.11 {PACKAGE}/_private/workers/default_worker.py --raylet-name=/tmp/ray/session_1/sockets/raylet",
        "python train.py --ray-address=10.0.0.1:6379",
        "python -m ray.train.lightning",
        "rsync -a /data/ray/ node-b:",
    ],
)
def test_no_service(line: str) -> None:
    assert not re.search(RAY_SERVICES, line)
