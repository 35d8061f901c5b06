"""gpu-runbooks lab: breaks something real on this machine, shows the whole loop, cleans up after itself."""

import argparse
import json
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from deployments.errors import CommandError
from deployments.lab.scenario import Scene

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
        raise CommandError(f"no rehearsal for {ns.runbook!r}; there are: {', '.join(SCENES)}")
    from deployments import run_online

    run_online.ready()  # before anything is broken
    scene: Callable[[Path], AbstractContextManager[Scene]] = import_module(SCENES[ns.runbook]).scene
    with tempfile.TemporaryDirectory(prefix="gpu-runbooks-lab-") as folder, _cleaned_up(Path(folder)):
        try:
            with scene(Path(folder)) as ready, _lent(ready.secrets):
                return _rehearse(ns, ready, Path(folder))
        except RuntimeError as e:
            raise CommandError(str(e), 3) from e


def _list(ns: argparse.Namespace) -> int:
    stories = {name: import_module(module).STORY for name, module in SCENES.items()}
    print(json.dumps(stories, indent=1) if ns.json else "\n".join(f"{n}: {s}" for n, s in stories.items()))
    return 0


def _say(ns: argparse.Namespace, text: str) -> None:
    print(text, file=sys.stderr if ns.json else sys.stdout, flush=True)


def _rehearse(ns: argparse.Namespace, scene: Scene, folder: Path) -> int:
    _say(ns, f"== the fault\n{scene.story}\n\n== gpu-runbooks run {scene.runbook} {scene.target} --mode approve")
    first = _run(ns, scene, folder)
    _say(ns, _report(first))
    if first["outcome"] != "waiting":
        raise CommandError(f"the rehearsal did not ask for approval: {first['outcome']}: {first['headline']}", 1)
    decision = "reject"
    try:
        decision = _decision(ns)
    finally:  # also at Ctrl-C: no question stays open about a fault that is gone
        _say(ns, f"== {decision}")
        last = _decide(ns, first["run"], decision)
    _say(ns, _report(last))
    _say(ns, f"== proof outside the engine\n{scene.proof()}")
    if ns.json:
        print(json.dumps({"first": first, "decision": decision, "last": last, "proof": scene.proof()}, indent=1))
    return 0 if last["outcome"] == ("fixed" if decision == "approve" else "rejected") else 1


def _run(ns: argparse.Namespace, scene: Scene, folder: Path) -> dict[str, Any]:
    from deployments.run_online import run_online

    out = str(folder / "reports")
    return run_online(scene.runbook, scene.target, "approve", str(scene.fleet), str(scene.policy), out, quiet=ns.json)


def _decide(ns: argparse.Namespace, run: str, decision: str) -> dict[str, Any]:
    from deployments.decide import decide_and_follow

    return decide_and_follow(run, decision, who=f"{os.environ.get('USER') or 'lab'} (rehearsal)", quiet=ns.json)


def _decision(ns: argparse.Namespace) -> str:
    """Asks at a terminal; without one the rehearsal approves by itself (nothing but its own fault is touched)."""
    if ns.json or not sys.stdin.isatty():
        return "approve"
    try:
        answer = input("approve the plan above? [y/N] ").strip().lower()
    except EOFError:
        return "reject"
    return "approve" if answer in ("y", "yes") else "reject"


def _report(facts: dict[str, Any]) -> str:
    path = Path(str(facts.get("report") or "/nonexistent"))
    return path.read_text(encoding="utf-8") if path.is_file() else f"(no report file; outcome {facts.get('outcome')})"


@contextmanager
def _cleaned_up(folder: Path) -> Iterator[None]:
    """Ends every process that was started from the rehearsal's folder, restarted trainers included."""
    try:
        yield
    finally:
        for proc in Path("/proc").glob("[0-9]*"):
            try:
                command = (proc / "cmdline").read_bytes().decode("utf-8", "replace")
                if f"{folder}/" in command and int(proc.name) != os.getpid():
                    os.kill(int(proc.name), signal.SIGKILL)
            except OSError:
                continue


@contextmanager
def _lent(secrets: dict[str, str]) -> Iterator[None]:
    """Gives the rehearsal's own credentials to the worker that carries on after the approval; takes them back."""
    if not secrets:
        yield
        return
    from deployments.run_online import ready
    from tasks.credentials import block_name

    ready()
    from prefect.blocks.system import Secret

    names = [block_name(n) for n in secrets]
    try:
        for name, value in zip(names, secrets.values(), strict=True):
            Secret(value=value).save(name, overwrite=True, _sync=True)  # type: ignore[call-arg]
        yield
    finally:
        for name in names:
            with suppress(ValueError):
                Secret.delete(name, _sync=True)  # type: ignore[call-arg]
