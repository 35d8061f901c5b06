"""gpu-runbooks lab: breaks something real on this machine, shows the whole loop, cleans up after itself."""

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, redirect_stdout, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from deployments.cli.display import show_table
from deployments.errors import CommandError
from deployments.lab import screens
from deployments.lab.broken_off import nothing_open, one_end
from deployments.lab.killed import RehearsalRecord, kill, own_folder, started_from, take_away, who
from deployments.lab.scenario import Scene
from runbooks.core.clean import one_line
from runbooks.core.names import there_are

SCENES = {
    "zombie-gpu": "deployments.lab.zombie_gpu",
    "ssh-auth-failure": "deployments.lab.ssh_auth_failure",
    "stuck-spawning": "deployments.lab.stuck_spawning",
}


def cmd_lab(ns: argparse.Namespace) -> int:
    """`gpu-runbooks lab [RUNBOOK]`: exit 0 when the fault was found, fixed and seen fixed."""
    if not ns.runbook:
        return _list(ns)
    if ns.runbook not in SCENES:
        raise CommandError(f"no rehearsal for {ns.runbook!r}; {there_are(ns.runbook, SCENES)}")
    from deployments.cli import run as run_online

    run_online.ready()  # before anything is broken
    take_away(server=True)
    scene: Callable[[Path], AbstractContextManager[Scene]] = import_module(SCENES[ns.runbook]).scene
    with one_end(), own_folder() as (folder, record), _cleaned_up(folder):
        try:
            with scene(folder) as ready, _lent(ready.secrets, record), nothing_open(ready.fleet, who()):
                return _rehearse(ns, ready)
        except RuntimeError as e:
            raise CommandError(str(e), 3) from e


def _list(ns: argparse.Namespace) -> int:
    stories = {name: import_module(module).STORY for name, module in SCENES.items()}
    if ns.json:
        print(json.dumps(stories, indent=1))
    else:
        show_table(list(stories.items()), headed=False)
    return 0


def _rehearse(ns: argparse.Namespace, scene: Scene) -> int:
    with redirect_stdout(sys.stderr) if ns.json else nullcontext():
        told = _stepwise(ns, scene)
    if ns.json:
        print(json.dumps(told, indent=1))
    return 0 if told["last"]["outcome"] == ("fixed" if told["decision"] == "approve" else "rejected") else 1


def _stepwise(ns: argparse.Namespace, scene: Scene) -> dict[str, Any]:
    """The four steps, each on a screen."""
    from deployments.cli.show import refusals_of

    screens.broken(scene)
    first = _run(ns, scene)
    screens.looked(first)
    if first["outcome"] != "waiting":
        why = "; ".join(refusals_of(first["report"])) or first["headline"]
        raise CommandError(f"the rehearsal did not ask for approval: {first['outcome']}: {why}", 1)
    choice = _first_choice(first["run"])
    screens.asked(first, choice)
    decision = _decision(ns, choice)
    last = _decide(ns, first["run"], decision, choice)
    proof = scene.proof()
    screens.proved(last, proof)
    return {"first": first, "decision": decision, "last": last, "proof": proof}


def _first_choice(run: str) -> str:
    """The mildest plan that the run offers: what the rehearsal asks about."""
    from flows.engine.open_question import open_question

    asked = open_question(run)
    return asked.plans[0].name if asked and asked.plans else ""


def _run(ns: argparse.Namespace, scene: Scene) -> dict[str, Any]:
    from deployments.cli.run import run_online
    from deployments.state import state_dir

    out = str(state_dir() / "lab-reports")  # kept: the screens name them
    return run_online(scene.runbook, scene.target, "approve", str(scene.fleet), str(scene.policy), out, quiet=ns.json)


def _decide(ns: argparse.Namespace, run: str, decision: str, choice: str) -> dict[str, Any]:
    from deployments.cli.approve import decide_and_follow

    return decide_and_follow(run, decision, who(), quiet=ns.json, choice=choice if decision == "approve" else "")


def _decision(ns: argparse.Namespace, choice: str) -> str:
    """Asks at a terminal; without one the rehearsal approves by itself (nothing but its own fault is touched)."""
    if ns.json or not sys.stdin.isatty():
        return "approve"
    try:
        answer = input(one_line(f"Do it: {choice or 'the plan above'}? [y/N]") + " ").strip().lower()
    except EOFError:
        return "reject"
    return "approve" if answer in ("y", "yes") else "reject"


@contextmanager
def _cleaned_up(folder: Path) -> Iterator[None]:
    """Ends every process that was started from the rehearsal's folder, restarted trainers included."""
    try:
        yield
    finally:
        for proc in started_from(folder):
            kill(proc)


@contextmanager
def _lent(secrets: dict[str, str], record: RehearsalRecord) -> Iterator[None]:
    """Gives the rehearsal's own credentials to the worker that carries on after the approval; takes them back."""
    if not secrets:
        yield
        return
    from deployments.cli.run import ready
    from tasks.credentials import block_name

    ready()
    from prefect.blocks.system import Secret

    names = [block_name(n) for n in secrets]
    record.lends(names)
    try:
        for name, value in zip(names, secrets.values(), strict=True):
            Secret(value=value).save(name, overwrite=True, _sync=True)  # type: ignore[call-arg]
        yield
    finally:
        for name in names:
            with suppress(ValueError):
                Secret.delete(name, _sync=True)  # type: ignore[call-arg]
