"""Runs `nvidia-smi` over a window on the node and gives its raw output. JSON argument: smi, fields, window_s,
samples, timeout_s.

One that hangs is killed; if it stays it is named, and none is started after it. Answer: queries [{at_s, exit, out}],
then apps, table, pmon, xml (each {exit, out} or null), hung, stuck (pid or null), tries. With one sample only queries
and apps.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from typing import Any

from tasks.remote.probes.proc import stat

OLD_NAMES = {"clocks_event_reasons.active": "clocks_throttle_reasons.active"}  # before driver 535
NOT_A_FIELD = re.compile(r'Field "([^"]+)" is not a valid field')


class Smi:
    """`nvidia-smi`, until it hangs."""

    def __init__(self, ask: "dict[str, Any]") -> None:
        self.path, self.timeout_s, self.stuck = ask["smi"], float(ask["timeout_s"]), None  # type: str, float, int | None
        self.hung, self.tries, self.fields = False, 0, ask["fields"].split(",")

    def run(self, *args: str) -> "dict[str, Any] | None":
        """Exit and output of one call; None when it hung, or when one hung before."""
        if self.hung:
            return None
        self.tries += 1
        env = dict(os.environ, LC_ALL="C")
        p = subprocess.Popen([self.path] + list(args), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, env=env, start_new_session=True)  # fmt: skip
        try:
            out, _ = p.communicate(timeout=self.timeout_s)
        except subprocess.TimeoutExpired:
            self.end(p)
            return None
        return {"exit": p.returncode, "out": out.decode("utf-8", "replace")}

    def end(self, p: "subprocess.Popen[bytes]") -> None:
        """Kill one that hangs; remember its pid when it doesn't go."""
        self.hung = True
        try:
            os.killpg(p.pid, signal.SIGKILL)
            p.wait(timeout=2)
        except (OSError, subprocess.TimeoutExpired):
            left = stat(p.pid)
            self.stuck = p.pid if left and left["state"] not in "ZX" else None

    def query(self) -> "dict[str, Any] | None":
        """One query of all GPUs, without the fields that this driver does not know."""
        for _ in range(6):
            done = self.run("--query-gpu=" + ",".join(self.fields), "--format=csv")
            bad = NOT_A_FIELD.search(done["out"]) if done else None
            if bad is None or bad.group(1) not in self.fields:
                return done
            at = self.fields.index(bad.group(1))
            self.fields[at : at + 1] = [OLD_NAMES[bad.group(1)]] if bad.group(1) in OLD_NAMES else []
        return done


def main(ask: "dict[str, Any]") -> "dict[str, Any]":
    """The window, then what is read once."""
    smi, began, queries, many = Smi(ask), time.monotonic(), [], max(1, int(ask["samples"]))
    for k in range(many):
        time.sleep(max(0.0, began + float(ask["window_s"]) * k / max(1, many - 1) - time.monotonic()))
        at = time.monotonic() - began
        done = smi.query()
        if done is not None:
            queries.append(dict(done, at_s=round(at, 3)))
        if done is None or done["exit"] != 0:
            break
    good = bool(queries) and queries[-1]["exit"] == 0 and not smi.hung
    apps = smi.run("--query-compute-apps=gpu_uuid,pid,process_name,used_memory", "--format=csv") if good else None
    more = good and many > 1
    table, xml = (smi.run(), smi.run("-q", "-x")) if more else (None, None)
    pmon = smi.run("pmon", "-c", "2", "-s", "um") if more else None
    return {"queries": queries, "apps": apps, "table": table, "pmon": pmon, "xml": xml, "hung": smi.hung,
            "stuck": smi.stuck,            "tries": smi.tries, "window_s": time.monotonic() - began}  # fmt: skip


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
