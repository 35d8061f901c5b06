"""`gpu-runbooks gateway`: checks what it was told, then serves until SIGTERM or Ctrl-C."""

import argparse
import logging
import os
import signal
import socket
import sys
from typing import Any

from deployments.cli.missing_secrets import check_secrets
from deployments.errors import CommandError
from deployments.gateway.settings import (
    GatewaySettings,
    Secrets,
    checked,
    loopback,
    own_token,
    secrets_from_environment,
    token_file,
)
from deployments.paths import absolute
from deployments.reports import check_reports
from deployments.serving import use_running_server


def cmd_gateway(ns: argparse.Namespace) -> int:
    """Serves alerts. The Prefect server is the local one of `up`, or the one that PREFECT_API_URL names."""
    settings = checked(_settings(ns))
    from deployments.gateway.files import load_files

    files = load_files(settings.alerts, settings.fleet, settings.policy)  # a broken file is an error before anything else
    if settings.workers:  # else workers write the reports, maybe on other machines
        check_reports(settings.out, files.fleet)
    use_running_server()
    check_secrets(files.fleet, settings.fleet)
    return serve(settings)


def _settings(ns: argparse.Namespace) -> GatewaySettings:
    values: dict[str, Any] = {
        "host": ns.host,
        "port": ns.port,
        "alerts": absolute(ns.alerts) or "",
        "fleet": absolute(ns.fleet or os.environ.get("GPU_RUNBOOKS_FLEET")),
        "policy": absolute(ns.policy or os.environ.get("GPU_RUNBOOKS_POLICY")),
        "out": absolute(ns.out),
        "secrets": Secrets() if ns.no_auth else _secrets(ns.host),
        "open": ns.no_auth,
        "tls_cert": ns.tls_cert,
        "tls_key": ns.tls_key,
        "behind_tls": ns.behind_tls_proxy,
        "workers": not ns.no_warm_processes,
    }
    return GatewaySettings(**values | ({"at_once": ns.at_once} if ns.at_once else {}))


def _secrets(host: str) -> Secrets:
    """On loopback the installation's own token will do; elsewhere somebody must have chosen a secret."""
    given = secrets_from_environment()
    return given if given.any or not loopback(host) else Secrets(token=own_token())


def serve(settings: GatewaySettings) -> int:
    """Listens until it is told to stop; then drains."""
    from tasks.clean_log import clean_process

    os.environ.setdefault("PREFECT_LOGGING_EXTRA_LOGGERS", "flows,tasks")
    clean_process()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s", stream=sys.stderr)
    for name in ("httpx", "prefect", "uvicorn.error"):
        logging.getLogger(name).setLevel(logging.WARNING)
    import uvicorn

    from deployments.gateway.app import create_app
    from deployments.gateway.connections import allow_open_files, server_config

    class Announced(uvicorn.Server):
        """Says where it listens as soon as it does: an alert sent before that is lost."""

        async def startup(self, sockets: "list[socket.socket] | None" = None) -> None:
            await super().startup(sockets)
            if self.started:
                _say(settings)

    allow_open_files()
    for s in (signal.SIGTERM, signal.SIGINT):  # uvicorn raises it again when all has ended: that is a clean end
        signal.signal(s, lambda *_: None)
    server = Announced(server_config(create_app(settings), settings))
    try:
        server.run()
    except SystemExit as e:  # uvicorn has logged what it could not listen on
        raise CommandError(f"the gateway cannot listen on {settings.host} port {settings.port}: see the line above") from e
    return 0 if server.started else 1


def _say(settings: GatewaySettings) -> None:
    scheme = "https" if settings.tls_cert else "http"
    ways = [n for n in ("token", "hmac", "pagerduty") if getattr(settings.secrets, n)]
    print(f"gateway: {scheme}://{settings.host}:{settings.port}/alerts/…  authentication: {', '.join(ways) or 'NONE'}")
    if settings.secrets.token and token_file().exists():
        print(f"bearer token (for credentials_file of Alertmanager): {token_file()}")
    if not settings.policy:
        print("no policy file: alerts only diagnose")
    sys.stdout.flush()
