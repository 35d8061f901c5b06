"""`doctor`: can this machine run runbooks? Reads only; the one file that it writes, to see that it can, it removes."""

import json
import os
import shutil
import sys
import tempfile
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from deployments.cli.display import show_table
from deployments.doctor.check import Check
from deployments.errors import NO_SERVER
from deployments.ports import is_free
from runbooks.core.config import ConfigError

LEAST_FREE = 1 << 30  # bytes; the server's database and the reports of some weeks
PORT = 4200  # Prefect's own
TOOLS = {
    "ssh": ("openssh-client", "only to test a connection by hand"),
    "ssh-keyscan": ("openssh-client", "only to look at host keys by hand"),
    "ps": ("procps", "only for the commands that reports print for this machine"),
    "nvidia-smi": ("the NVIDIA driver", "only where this machine has a GPU"),
}


def cmd_doctor(ns: Namespace) -> int:
    """Prints every check; 0 if nothing is at fault, 2 if only a configuration file is, 5 if only the server is, else 1."""
    checks = [check for look in LOOKS for check in look(ns)]
    if ns.json:
        print(json.dumps([asdict(c) for c in checks], indent=1))
    else:
        fixes = {c: [("", "", f"fix: {c.fix}")] if c.fix else [] for c in checks}
        show_table([row for c in checks for row in ((c.state, c.name, c.says), *fixes[c])], coloured=0, headed=False)
    faults = {c.name for c in checks if c.state == "FAULT"}
    if faults == {"server"}:
        return NO_SERVER
    return 0 if not faults else 2 if faults <= {"fleet file", "policy file"} else 1


def _python(_ns: Namespace) -> Iterator[Check]:
    version = ".".join(str(n) for n in sys.version_info[:3])
    fine = sys.version_info >= (3, 11)
    yield Check(
        "python", "ok" if fine else "FAULT", f"{version} ({sys.executable})", "" if fine else "install Python 3.11+"
    )


def _packages(_ns: Namespace) -> Iterator[Check]:
    from importlib.metadata import PackageNotFoundError, version

    for name in ("prefect", "pydantic", "fabric", "paramiko"):
        try:
            yield Check(name, "ok", version(name))
        except PackageNotFoundError:
            yield Check(name, "FAULT", "not installed", "make setup")


def _tools(_ns: Namespace) -> Iterator[Check]:
    for name, (package, why) in TOOLS.items():
        path = shutil.which(name)
        yield Check(name, "ok", path) if path else Check(name, "note", f"missing; needed {why} (in {package})")


def _folders(_ns: Namespace) -> Iterator[Check]:
    from deployments.state import state_dir

    try:
        folder = state_dir()
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".doctor-"):
            yield Check("state folder", "ok", f"{folder} can be written")
        free = shutil.disk_usage(folder).free
    except OSError as e:
        yield Check(
            "state folder", "FAULT", f"{e.filename or ''}: {e.strerror}", "set GPU_RUNBOOKS_HOME to a folder of yours"
        )
        return
    enough = free >= LEAST_FREE
    says = f"{free / (1 << 30):.1f} GiB free in {folder}"
    yield Check("disk", "ok" if enough else "FAULT", says, "" if enough else "free at least 1 GiB")


def _server(ns: Namespace) -> Iterator[Check]:
    from deployments.contact import shown
    from deployments.errors import CommandError
    from deployments.own_server import own_server
    from deployments.serving import find, use_answering_server
    from deployments.state import read_state

    ns.server_answers, own = False, own_server()
    if own:
        yield Check("server", "note", f"PREFECT_API_URL names a server of your own: {shown(os.environ['PREFECT_API_URL'])}")
    try:
        use_answering_server()
        ns.server_answers = True
        yield Check("server", "ok", f"answers at {shown(os.environ['PREFECT_API_URL'])}")
        return
    except CommandError as e:
        if own or find(read_state(), "server"):
            yield Check("server", "FAULT", *str(e).split(". What to do: ", 1))
            return
    yield Check("server", "note", "not running; `gpu-runbooks up` starts it, `nightly` and `run` start it automatically")
    taken = not is_free(PORT)
    yield Check(
        "port", "note" if taken else "ok", f"{PORT} is {'taken: another port will be used' if taken else 'free'}"
    )


def _files(ns: Namespace) -> Iterator[Check]:
    from flows.config import load_fleet, load_policy
    from tasks.installation import lasting

    fleet = ns.fleet or os.environ.get("GPU_RUNBOOKS_FLEET")
    policy = ns.policy or os.environ.get("GPU_RUNBOOKS_POLICY")
    try:
        found = load_fleet(fleet)
        yield Check("fleet file", "ok", f"{fleet or 'none: only this machine'}; nodes: {len(found.nodes)}")
        yield from _keys(lasting(n.key.file) for n in found.nodes if n.key and n.key.file)
    except ConfigError as e:
        yield Check("fleet file", "FAULT", str(e), "gpu-runbooks fleet check FILE, after correcting it")
    try:
        load_policy(policy)
        yield Check("policy file", "ok", policy or "none: nothing is automatic")
    except ConfigError as e:
        yield Check("policy file", "FAULT", str(e))


def _keys(files: Iterator[Path]) -> Iterator[Check]:
    from tasks.whole_file import nearest_beside

    for path in dict.fromkeys(files):
        try:
            mode = path.stat().st_mode & 0o077
        except OSError as e:
            yield Check("key", "FAULT", f"{path}: {e.strerror}{nearest_beside(path)}", "correct key.file in the fleet file")
            continue
        if mode:
            yield Check("key", "FAULT", f"{path}: readable by others", f"chmod 600 {path}")
        elif not os.access(path, os.R_OK):
            yield Check("key", "FAULT", f"{path}: not readable by this user", "chown it, or run as its owner")
        else:
            yield Check("key", "ok", str(path))


def _secrets(ns: Namespace) -> Iterator[Check]:
    """Every Prefect Secret block that the fleet file names, where the server answers."""
    from deployments.cli.missing_secrets import find_missing
    from deployments.cli.needed_secrets import needs
    from flows.config import load_fleet

    with suppress(ConfigError):  # told by the check of the fleet file
        for missing in find_missing(needs(load_fleet(ns.fleet))).missing if ns.server_answers else ():
            fix = f"correct the name in the fleet file, or store it: gpu-runbooks secrets --set {missing.need.name}"
            yield Check("secret", "FAULT" if missing.need.block else "note", missing.says, fix)


def _fleet(ns: Namespace) -> Iterator[Check]:
    """Every node and every system of the fleet file, where there is one."""
    from deployments.doctor.fleet import check_fleet
    from flows.config import fleet_file, load_fleet

    try:
        fleet = load_fleet(ns.fleet)
    except ConfigError:
        return  # told by the check of the fleet file
    if fleet_file(ns.fleet):
        yield from check_fleet(fleet)


def _people(ns: Namespace) -> Iterator[Check]:
    from deployments.doctor.people import check_people

    yield from check_people(ns)


LOOKS: tuple[Callable[[Namespace], Iterator[Check]], ...] = (
    _python,
    _packages,
    _tools,
    _folders,
    _server,
    _files,
    _secrets,
    _fleet,
    _people,
)
