"""A volume plugin of a Docker engine that makes its mount point with a plain mkdir, as loop-device plugins do."""

import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

SOCKETS = Path("/run/docker/plugins")


class VolumePlugin:
    """Volumes of the driver `name`; each is a folder of that name below `top`, made at the mount and removed at the unmount."""

    def __init__(self, name: str, top: Path) -> None:
        self.name, self.top = name, top
        self.volumes: set[str] = set()
        self.forgets = False  # an unmount leaves the folder behind, as a host that goes down does

    def answer(self, what: str, body: dict[str, Any]) -> dict[str, Any]:
        """One call of the engine."""
        volume = str(body.get("Name", ""))
        path = self.top / volume
        if what == "Plugin.Activate":
            return {"Implements": ["VolumeDriver"]}
        if what == "VolumeDriver.Create":
            self.volumes.add(volume)
        if what == "VolumeDriver.Mount":
            try:
                path.mkdir()
            except OSError as e:
                said = str(e.strerror).lower()
                return {"Err": f"VolumeDriver.Mount: cannot create mount point dir '{path}': mkdir {path}: {said}"}
            return {"Mountpoint": str(path)}
        if what == "VolumeDriver.Unmount" and not self.forgets:
            path.rmdir()
        known = {"Name": volume, "Mountpoint": str(path) if path.exists() else ""}
        answers: dict[str, dict[str, Any]] = {
            "VolumeDriver.Get": {"Volume": known},
            "VolumeDriver.Path": {"Mountpoint": str(path)},
            "VolumeDriver.List": {"Volumes": [{"Name": v} for v in sorted(self.volumes)]},
            "VolumeDriver.Capabilities": {"Capabilities": {"Scope": "local"}},
        }
        return answers.get(what, {})


@contextmanager
def volume_plugin(name: str, top: Path) -> Iterator[VolumePlugin]:
    """The plugin, where an engine of this machine finds it."""
    plugin, socket = VolumePlugin(name, top), SOCKETS / f"{name}.sock"
    SOCKETS.mkdir(parents=True, exist_ok=True)
    server = socketserver.ThreadingUnixStreamServer(str(socket), _handler(plugin))
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield plugin
    finally:
        server.shutdown()
        server.server_close()
        socket.unlink(missing_ok=True)


def _handler(plugin: VolumePlugin) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def address_string(self) -> str:
            return "engine"

        def log_message(self, format: str, *args: Any) -> None:
            """Silent."""

        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            data = json.dumps({"Err": "", **plugin.answer(self.path.strip("/"), json.loads(raw or b"{}"))}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/vnd.docker.plugins.v1.1+json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    return Handler
