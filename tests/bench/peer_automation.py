"""The peer of bench_gateway: plain Prefect. An event starts a served deployment by an automation; its first line is a command."""

import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.engine_rig import REPO

if TYPE_CHECKING:
    from tests.bench.bench_gateway import Site

FLOW = '''
import subprocess, sys
from prefect import flow

@flow
def peer():
    subprocess.run(sys.argv[1:] if len(sys.argv) > 1 else open({argv!r}).read().split("\\n"), check=True)

if __name__ == "__main__":
    peer.serve(name="peer", triggers=[])
'''


def peer_seconds(site: "Site", home: Path, count: int) -> list[float]:
    """Seconds from the event to the command on the node, one after the other."""
    argv = home / "peer-argv"
    node = site.nodes[0]
    words = ["ssh", "-F", "none", "-o", "BatchMode=yes", "-o", f"UserKnownHostsFile={site.sshd.known_hosts}"]
    words += ["-i", str(site.sshd.key), "-p", str(node.port), f"{node.user}@{node.host}", "true"]
    argv.write_text("\n".join(words), encoding="utf-8")
    script = home / "peer_flow.py"
    script.write_text(FLOW.format(argv=str(argv)), encoding="utf-8")
    from deployments.state import read_state, use_server

    state = read_state()
    if state is None:
        raise RuntimeError("no server")
    use_server(state)
    serving = subprocess.Popen([sys.executable, str(script)], cwd=REPO, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _automate()
        return [_one(site) for _ in range(count)]
    finally:
        serving.terminate()
        serving.wait(30)


def _automate(limit_s: float = 60) -> None:
    """The automation, once the deployment is there."""
    from prefect.automations import Automation
    from prefect.client.orchestration import get_client
    from prefect.events.actions import RunDeployment
    from prefect.events.schemas.automations import EventTrigger, Posture
    from prefect.exceptions import ObjectNotFound

    deadline = time.monotonic() + limit_s
    while True:
        try:
            with get_client(sync_client=True) as client:
                found = client.read_deployment_by_name("peer/peer")
            break
        except ObjectNotFound:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)
    trigger = EventTrigger(expect={"bench.alert"}, posture=Posture.Reactive, threshold=1, within=0)
    Automation(name="peer", trigger=trigger, actions=[RunDeployment(source="selected", deployment_id=found.id)]).create()
    time.sleep(5)  # automations are loaded from time to time


def _one(site: "Site", limit_s: float = 90) -> float:
    from prefect.events import emit_event

    began = time.time()
    emit_event(event="bench.alert", resource={"prefect.resource.id": "bench.node"})
    return site.wait_first(began, limit_s, "the automation did not start anything")
