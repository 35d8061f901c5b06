"""Real sshd for tests; the class itself is the lab's."""

from deployments.lab.sshd import Sshd, make_key, public_key

__all__ = ["Sshd", "make_key", "public_key"]
