"""Whether the operator has a Prefect server of their own."""

import os

from deployments.state import read_state


def own_server() -> bool:
    """True if the operator has a Prefect server of their own (PREFECT_API_URL is set and not ours)."""
    url = os.environ.get("PREFECT_API_URL")
    state = read_state()
    return bool(url) and not (state and url == state.api)
