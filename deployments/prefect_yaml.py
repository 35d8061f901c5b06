"""Writes prefect.yaml again: `python -m deployments.prefect_yaml`. A test holds the file equal to what this makes."""

from pathlib import Path
from typing import Any

import yaml

from deployments.catalog import ZONE, DeploymentSpec, programs
from deployments.pool import POOL

PATH = Path(__file__).with_name("prefect.yaml")
HEAD = f"""\
# The deployments, for a Prefect server of your own. Made by `python -m deployments.prefect_yaml`; copy it to change it.
#
#   export PREFECT_API_URL=… GPU_RUNBOOKS_FLEET=/etc/gpu-runbooks/fleet.yaml GPU_RUNBOOKS_POLICY=/etc/gpu-runbooks/policy.yaml
#   prefect work-pool create {POOL} --type process --overwrite
#   prefect --no-prompt deploy --all --prefect-file deployments/prefect.yaml
#   prefect worker start --pool {POOL}            # as many as you need
#   python -m deployments.reaper                       # one; it also creates the flows for the engine's own records
#
# The forms offer the names and labels of that fleet file, so deploy again after you change it. Both files must have the same path on
# the workers. Code location: the package is installed where the worker runs (`pip install .`). Therefore the entrypoints are modules,
# and there is nothing to pull. To run from a checkout instead, put `- prefect.deployments.steps.git_clone: {{repository: …}}`
# under `pull`.
"""


class _Dumper(yaml.SafeDumper):
    """Long texts as blocks, lists indented."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002
        """Lists are indented below their key."""
        super().increase_indent(flow, False)


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def render() -> str:
    """The whole file."""
    body = {"name": POOL, "pull": [], "deployments": [_entry(s) for s in programs()]}
    return HEAD + "\n" + yaml.dump(body, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)


def _entry(spec: DeploymentSpec) -> dict[str, Any]:
    return {
        "name": spec.name,
        "entrypoint": spec.entrypoint,
        "description": "\n".join(line.rstrip() for line in spec.description.splitlines()),
        "tags": list(spec.tags),
        "enforce_parameter_schema": True,
        "parameters": {name: f"{{{{ $GPU_RUNBOOKS_{name.upper()} }}}}" for name in spec.takes},
        **({"schedules": _schedules(spec)} if _schedules(spec) else {}),  # none given: those set in the UI stay
        "pull": [],
        "work_pool": {"name": POOL, "job_variables": {"stream_output": True}},
    }


def _schedules(spec: DeploymentSpec) -> list[dict[str, Any]]:
    """The nightly is on: deploying it says that it is wanted. The sweep is off until somebody switches it on."""
    if spec.cron:
        return [{"slug": spec.name, "cron": spec.cron, "timezone": ZONE, "active": True}]
    if spec.every_s:
        return [{"slug": spec.name, "interval": spec.every_s, "active": False}]
    return []


if __name__ == "__main__":
    PATH.write_text(render(), encoding="utf-8")
