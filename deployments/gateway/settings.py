"""How the gateway was told to run: where it listens, whom it believes, how much it takes."""

import ipaddress
import os
import secrets
import socket
from pathlib import Path

from pydantic import Field

from deployments.errors import CommandError
from deployments.state import state_dir
from runbooks.core.base import Frozen
from runbooks.core.error_text import error_text

PORT = 8765
TOKEN_ENV, HMAC_ENV, PAGERDUTY_ENV = (
    "GPU_RUNBOOKS_GATEWAY_TOKEN",
    "GPU_RUNBOOKS_GATEWAY_HMAC",
    "GPU_RUNBOOKS_GATEWAY_PAGERDUTY",
)
SHORTEST_SECRET = 16


class Secrets(Frozen):
    """What senders prove themselves by. Never printed."""

    token: str = Field(default="", repr=False)
    hmac: str = Field(default="", repr=False)
    pagerduty: str = Field(default="", repr=False)

    @property
    def any(self) -> bool:
        """True if a sender can prove itself at all."""
        return bool(self.token or self.hmac or self.pagerduty)


class GatewaySettings(Frozen):
    """Everything `create_app` needs to know."""

    host: str = "127.0.0.1"
    port: int = Field(default=PORT, ge=0, le=65535)
    alerts: str = ""  # path of the alerts file; "": the one that comes with the program
    fleet: str | None = None
    policy: str | None = None
    out: str | None = None
    secrets: Secrets = Secrets()
    open: bool = False  # no authentication: on loopback only
    tls_cert: str | None = None
    tls_key: str | None = None
    behind_tls: bool = False  # a proxy in front of it ends TLS
    largest_body: int = Field(default=2 << 20, ge=1024)
    per_second: float = Field(default=50, gt=0)  # requests, all senders together
    burst: int = Field(default=200, ge=1)
    replay_window_s: float = Field(default=300, gt=0)
    at_once: int = Field(default=4, ge=1, le=64)  # runs in processes of their own at one time
    workers: bool = True  # False: runs are left to workers (no warm processes)


def loopback(host: str) -> bool:
    """True if only this machine can reach it."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        pass
    try:
        found = {str(a[4][0]) for a in socket.getaddrinfo(host, None)}
    except (OSError, UnicodeError):  # no such name, or what cannot be one
        return False
    return bool(found) and all(ipaddress.ip_address(a.partition("%")[0]).is_loopback for a in found)


def checked(settings: GatewaySettings) -> GatewaySettings:
    """`settings`, if they are safe to listen with. Raises CommandError that says what to do."""
    known = settings.secrets
    for name, value in (("token", known.token), ("HMAC secret", known.hmac), ("PagerDuty secret", known.pagerduty)):
        if value and len(value) < SHORTEST_SECRET:
            raise CommandError(f"the gateway's {name} is shorter than {SHORTEST_SECRET} characters; make a long random one")
    if bool(settings.tls_cert) != bool(settings.tls_key):
        raise CommandError("give both --tls-cert and --tls-key, or neither")
    if loopback(settings.host):
        if not settings.open and not settings.secrets.any:
            raise CommandError(f"no secret for senders: set ${TOKEN_ENV}, or say --no-auth (loopback only)")
        return settings
    if settings.open or not settings.secrets.any:
        raise CommandError(
            f"refusing to listen on {settings.host} without authentication: set ${TOKEN_ENV} (bearer token), ${HMAC_ENV} "
            f"(signatures) or ${PAGERDUTY_ENV}, and leave out --no-auth"
        )
    if not settings.tls_cert and not settings.behind_tls:
        raise CommandError(
            f"refusing to listen on {settings.host} in plain HTTP: give --tls-cert and --tls-key, or --behind-tls-proxy if "
            "a proxy ends TLS in front of it"
        )
    return settings


def secrets_from_environment() -> Secrets:
    """Secrets of this installation: from the environment; with none there, a token made once in the state folder."""
    given = Secrets(
        token=os.environ.get(TOKEN_ENV, ""), hmac=os.environ.get(HMAC_ENV, ""), pagerduty=os.environ.get(PAGERDUTY_ENV, "")
    )
    return given if given.any else Secrets(token=own_token())


def token_file() -> Path:
    """Where the installation's own token lies (0600); Alertmanager can read it by `credentials_file`."""
    return state_dir() / "gateway.token"


def _kept_token(path: Path) -> str:
    try:
        found = path.read_text(encoding="ascii").strip()
    except (OSError, ValueError) as e:
        raise CommandError(f"{path} cannot be read as a token ({error_text(e)}); remove it: the next start makes a new one") from e
    if len(found) < SHORTEST_SECRET:
        raise CommandError(f"{path} holds no token (at least {SHORTEST_SECRET} characters); remove it: the next start makes a new one")
    return found


def own_token() -> str:
    """The token in the state folder, made at the first time."""
    path = token_file()
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return _kept_token(path)
    with os.fdopen(fd, "w", encoding="utf-8") as f:
        token = secrets.token_urlsafe(32)
        f.write(token)
    return token
