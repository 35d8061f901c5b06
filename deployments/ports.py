"""Whether a port of this machine can be listened on."""

import socket


def is_free(port: int) -> bool:
    """True if a listener may bind this TCP port on loopback now (one that only waits in TIME_WAIT counts as free)."""
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            s.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
