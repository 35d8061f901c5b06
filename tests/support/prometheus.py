"""A real Prometheus and a real Alertmanager on loopback, and something to scrape."""

import re
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import yaml

from deployments.ports import free_port
from tests.support.engine_rig import REPO
from tests.support.need import need_program


class Exporter:
    """Serves lines of metrics; a counter named in `rising` grows by one each time that it is read."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.rising: list[str] = []
        self._n = 0
        outer = self

        class Page(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = outer.page().encode()
                self.send_response(200)
                self.send_header("content-type", "text/plain; version=0.0.4")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def page(self) -> str:
        self._n += 1
        return "\n".join([*self.lines, *(f"{name} {self._n}" for name in self.rising)]) + "\n"

    def close(self) -> None:
        self._server.shutdown()


def hurried(rules: str) -> str:
    """The same rules with seconds for minutes, so that a test sees them fire."""
    rules = re.sub(r"\[\d+[mhd]\]", "[3s]", rules)
    return re.sub(r"for: \d+m", "for: 0s", rules)


class Alerting:
    """Prometheus with our rules, and Alertmanager with our example, pointed at a gateway."""

    def __init__(self, folder: Path, exporter: Exporter, gateway_url: str, token: str) -> None:
        self.folder = folder
        self.prometheus, self.alertmanager = free_port(), free_port()
        (folder / "token").write_text(token, encoding="utf-8")
        rules = (REPO / "deployments/prometheus-rules.yaml").read_text(encoding="utf-8")
        (folder / "rules.yaml").write_text(hurried(rules), encoding="utf-8")
        self._write("prometheus.yml", self._config(exporter.port))
        example = (REPO / "deployments/alertmanager.example.yml").read_text(encoding="utf-8")
        example = example.replace("http://127.0.0.1:8765", gateway_url).replace("/etc/prometheus/gpu-runbooks.token", "token")
        (folder / "alertmanager.yml").write_text(example.replace("group_interval: 1m", "group_interval: 1s"), encoding="utf-8")
        self._processes: list[subprocess.Popen[bytes]] = []

    def _write(self, name: str, data: object) -> None:
        (self.folder / name).write_text(yaml.safe_dump(data), encoding="utf-8")

    def _config(self, port: int) -> dict[str, object]:
        every = "300ms"
        return {
            "global": {"scrape_interval": every, "scrape_timeout": every, "evaluation_interval": every},
            "alerting": {"alertmanagers": [{"static_configs": [{"targets": [f"127.0.0.1:{self.alertmanager}"]}]}]},
            "rule_files": ["rules.yaml"],
            "scrape_configs": [{"job_name": "gpus", "static_configs": [{"targets": [f"127.0.0.1:{port}"]}]}],
        }

    def start(self) -> None:
        """Both, and waits until they are ready."""
        am = need_program("prometheus-alertmanager", "prometheus-alertmanager")
        self._run(am, "--config.file=alertmanager.yml", "--storage.path=am", "--cluster.listen-address=", self.alertmanager)
        self._run(need_program("prometheus", "prometheus"), "--config.file=prometheus.yml", "--storage.tsdb.path=p", "", self.prometheus)
        for port in (self.alertmanager, self.prometheus):
            self._ready(port)

    def _run(self, program: str, config: str, storage: str, more: str, port: int) -> None:
        argv = [program, config, storage, *([more] if more else []), f"--web.listen-address=127.0.0.1:{port}"]
        log = (self.folder / f"{Path(program).name}.log").open("ab")
        self._processes.append(subprocess.Popen(argv, cwd=self.folder, stdout=log, stderr=log))

    def _ready(self, port: int, limit_s: float = 30) -> None:
        deadline = time.monotonic() + limit_s
        while True:
            try:
                httpx.get(f"http://127.0.0.1:{port}/-/ready").raise_for_status()
                return
            except httpx.HTTPError:
                assert time.monotonic() < deadline, self.log()
                time.sleep(0.1)

    def log(self) -> str:
        """What both printed."""
        return "\n".join(p.read_text(errors="replace")[-2000:] for p in self.folder.glob("*.log"))

    def stop(self) -> None:
        """Both, by their pids."""
        for process in self._processes:
            process.terminate()
            process.wait(timeout=20)
