"""Reads how the instance's metadata service answers, where S3 credentials were looked for last. Changes nothing."""

import os
from http.client import HTTPConnection, HTTPException
from urllib.parse import urlsplit

HERE = "http://169.254.169.254"
SECONDS = 1.5
TOKEN, ROLES = "/latest/api/token", "/latest/meta-data/iam/security-credentials/"
NO_ANSWER = 0


def read_metadata() -> str:
    """One line: switched off, not there, no role, a role, or the token's answer that never arrives in a container.

    The token's answer (PUT) is sent with a time to live of the instance's hop limit; all other answers are not. With a
    limit of 1 it never arrives behind a container's bridge: the connection stands, GET is answered, PUT is not.
    """
    if os.environ.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true":
        return "switched off by AWS_EC2_METADATA_DISABLED"
    try:
        token, text = _ask("PUT", TOKEN, {"X-aws-ec2-metadata-token-ttl-seconds": "60"})
        if token == NO_ANSWER:
            plain, _ = _ask("GET", ROLES, {})
            return _no_token(plain)
        if token != 200:
            return f"the token request is answered by {token}"
        status, role = _ask("GET", ROLES, {"X-aws-ec2-metadata-token": text})
    except OSError as e:
        return f"not there ({type(e).__name__})"
    return "answers, and no role is attached to the instance" if status == 404 or not role else f"answers, role {role}"


def _no_token(plain: int) -> str:
    if plain == NO_ANSWER:
        return "accepts a connection and answers nothing"
    return (
        f"answers a plain read ({plain}) and never the token request: the hop limit of its answer is too small for a "
        "container (set HttpPutResponseHopLimit to 2 or more)"
    )


def _ask(method: str, path: str, headers: dict[str, str]) -> tuple[int, str]:
    """(status, first line); status 0 where the connection stands and no answer comes. Raises OSError."""
    at = urlsplit(os.environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT") or HERE)
    connection = HTTPConnection(at.hostname or "", at.port, timeout=SECONDS)
    connection.connect()
    try:
        connection.request(method, at.path.rstrip("/") + path, headers=headers)
        answer = connection.getresponse()
        lines = answer.read(4096).decode("utf-8", "replace").splitlines()
    except (TimeoutError, HTTPException):
        return NO_ANSWER, ""
    finally:
        connection.close()
    return answer.status, lines[0] if lines else ""
