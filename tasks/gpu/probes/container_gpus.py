"""Asks `nvidia-smi -L` inside running containers that were given GPUs. JSON argument: {timeout_s, cap, engine}.

A container can lose its device files while the machine's own GPUs answer (systemd reload with cgroups v2).
"""

import json
import shutil
import subprocess
import sys
from typing import Any


def run(argv: "list[str]", timeout_s: float) -> "tuple[int, str]":
    """Exit and output; 124 when it took too long."""
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=timeout_s
        )
    except (OSError, subprocess.TimeoutExpired) as e:
        return 124, str(e)
    return done.returncode, done.stdout.decode("utf-8", "replace")


def given_gpus(one: "dict[str, Any]") -> bool:
    """Whether the container was started with GPUs."""
    host, env = one.get("HostConfig") or {}, (one.get("Config") or {}).get("Env") or []
    asked = any("gpu" in c for r in host.get("DeviceRequests") or [] for c in r.get("Capabilities") or [])
    devices = any(str(d.get("PathOnHost", "")).startswith("/dev/nvidia") for d in host.get("Devices") or [])
    by_env = host.get("Runtime") == "nvidia" and any(e.startswith("NVIDIA_VISIBLE_DEVICES=") for e in env)
    return asked or devices or by_env


def main(ask: "dict[str, Any]") -> "dict[str, Any]":
    """Containers with what their nvidia-smi says; those without nvidia-smi are counted in `silent`."""
    engine = list(ask["engine"])
    if shutil.which(engine[0]) is None:
        return {"absent": "%s is not installed" % engine[0], "error": "", "containers": [], "silent": 0}
    code, out = run([*engine, "ps", "-q", "--no-trunc"], ask["timeout_s"])
    if code != 0:
        return {"absent": "", "error": out.strip()[-300:], "containers": [], "silent": 0}
    ids = out.split()[: int(ask["cap"])]
    code, text = run([*engine, "inspect", *ids], ask["timeout_s"]) if ids else (0, "[]")
    found, silent = [], 0
    for one in json.loads(text) if code == 0 else []:
        if given_gpus(one):
            code, said = run([*engine, "exec", one["Id"], "nvidia-smi", "-L"], ask["timeout_s"])
            bad = [line for line in said.splitlines() if "NVML" in line or "device handle" in line]
            silent += code != 0 and not bad
            if code == 0 or bad:
                found.append(
                    {"container": one["Id"], "name": one["Name"].lstrip("/"), "nvml": "" if code == 0 else bad[0][:200]}
                )
    return {
        "absent": "",
        "error": "" if code in (0, 1, 126, 127) or found else text[-300:],
        "containers": found,
        "silent": silent,
    }


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
