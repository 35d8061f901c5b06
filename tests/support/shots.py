"""The README's screenshots, of a real zombie-gpu run: `python -m tests.support.shots`, as the rehearsal sets it up."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import yaml

from deployments import server
from deployments.cli import up as updown
from deployments.lab import zombie_gpu
from deployments.lab.gpu import StubDriver, holding
from deployments.lab.scenario import Scene
from deployments.state import auth_string, use_server
from tests.support.ui import Ui, open_ui

REPO = Path(__file__).resolve().parents[2]
OUT = REPO / "deployments/screenshots"
NODE = "gpu-node-07"
HOME = Path("/srv/train")


@contextmanager
def stopped_trainer(folder: Path) -> Iterator[Scene]:
    """The rehearsal's fault on a node with a name of its own, in a fleet of three."""
    with zombie_gpu.scene(folder) as scene:
        fleet = yaml.safe_load(scene.fleet.read_text())
        first = fleet["nodes"][0] | {"name": NODE}
        first["labels"] |= {"gpu": "h100", "zone": "eu-1"}
        others = [{"name": f"gpu-node-{n}", "host": "127.0.0.1", "port": 1, "labels": {"gpu": "h100"}} for n in ("08", "09")]
        fleet |= {"name": "eu-train", "nodes": [first, *others], "reports": {"folder": str(folder / "reports")}}
        fleet["jobs"][0]["restart"] = []
        scene.fleet.write_text(yaml.safe_dump(fleet, sort_keys=False))
        yield scene


def decided(ui: Ui, name: str, decision: str) -> None:
    """From the run form to the outcome, with pictures of the form, the question, and the end."""
    from flows import store

    d = store.ask(lambda c: c.read_deployment_by_name("zombie-gpu/zombie-gpu"))
    ui.fill_form(str(d.id), NODE, "approve")
    ui.page.wait_for_timeout(1000)
    ui.page.screenshot(path=OUT / "form.png")
    ui.submit()
    run = waiting()
    ui.open_decision(run)
    ui.page.screenshot(path=OUT / "question.png")
    ui.page.get_by_role("dialog").get_by_label("Decision").scroll_into_view_if_needed()
    ui.page.screenshot(path=OUT / "decision.png")
    ui.decide(decision, "ana", "checked with the owner")
    ended(run)
    outcome(ui, run, name)


def outcome(ui: Ui, run: str, name: str) -> None:
    """The run's page, with the newest line of its log first."""
    ui.open_run(run)
    ui.shows("Level: All")
    if ui.page.get_by_text("Oldest to newest").count():  # the UI remembers the choice
        ui.page.get_by_text("Oldest to newest").click()
        ui.page.get_by_text("Newest to oldest").last.click()
    ui.page.wait_for_timeout(4000)
    ui.page.screenshot(path=OUT / f"{name}.png")


def waiting(not_with: str = "") -> str:
    """The id of the run that waits, with a plan that does not hold `not_with`."""
    import time

    from prefect.client.schemas.objects import StateType

    from flows import store

    for _ in range(600):
        for run in store.find_runs([store.RUNBOOK_TAG], [StateType.PAUSED], limit=1):
            if not not_with or not_with not in str(run.labels.get("headline")):
                return str(run.id)
        time.sleep(0.5)
    raise RuntimeError("no run asks")


def ended(run: str) -> None:
    """Waits for the run's end."""
    from deployments.cli.follow import follow

    follow(run, quiet=True)


def changed(ui: Ui, folder: Path) -> None:
    """Another process holds the GPU when the answer comes: the run asks again."""
    import signal
    import time

    from flows import store

    d = store.ask(lambda c: c.read_deployment_by_name("zombie-gpu/zombie-gpu"))
    ui.fill_form(str(d.id), NODE, "approve")
    ui.submit()
    run = waiting()
    old = str(store.read_run(run).labels["headline"])
    ui.open_decision(run)
    argv = [sys.executable, str(folder / "train_selfplay.py"), "--run", "lab"]
    other = subprocess.Popen(argv, stdin=subprocess.DEVNULL, start_new_session=True)
    StubDriver(folder / "gpu").show(holding(other.pid))
    time.sleep(0.5)
    other.send_signal(signal.SIGSTOP)
    ui.decide("approve", "ana")
    waiting(not_with=old)
    ui.open_decision(run)
    ui.page.screenshot(path=OUT / "changed.png")
    ui.decide("approve", "ana")
    ended(run)
    outcome(ui, run, "fixed")
    other.kill()
    other.wait()


def page(ui: Ui) -> None:
    """The landing page and a report."""
    from flows import artifacts, store
    from flows.sweep.board import board_key
    from runbooks.core.names import slug

    for name, key in (("fleet", board_key("eu-train")), ("report", slug("report", "zombie-gpu", NODE))):
        found = store.ask(partial(artifacts._latest, key=key))
        ui.go(f"/artifacts/artifact/{found.latest_id}")
        ui.page.wait_for_timeout(2500)
        ui.page.screenshot(path=OUT / f"{name}.png")


@contextmanager
def own_folder() -> Iterator[Path]:
    """A folder whose name may stand in a picture; it must not be there yet, and is not afterwards."""
    HOME.mkdir(parents=True)
    try:
        yield HOME
    finally:
        shutil.rmtree(HOME)


def main() -> None:
    """Makes all pictures anew."""
    OUT.mkdir(exist_ok=True)
    with own_folder() as folder, stopped_trainer(folder) as scene:
        os.environ |= {
            "GPU_RUNBOOKS_HOME": str(folder / "home"), "GPU_RUNBOOKS_FLEET": str(scene.fleet),
            "GPU_RUNBOOKS_POLICY": str(scene.policy),
        }  # fmt: skip
        state = server.ensure_up()
        assert state is not None
        use_server(state)
        try:
            with open_ui(state.ui, auth_string()) as ui:
                decided(ui, "rejected", "reject")
                changed(ui, folder)
                page(ui)
        except Exception:
            print(*(p.read_text(errors="replace")[-3000:] for p in (folder / "home/logs").glob("*")), file=sys.stderr)
            raise
        finally:
            updown.stop_all(drain=False)


if __name__ == "__main__":
    main()
