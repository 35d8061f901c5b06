"""Gives a run a state as a person in the UI, or a server that lost it, would."""

from typing import Any
from uuid import UUID

from prefect.client.schemas.objects import State

from flows import store


def set_state(run_id: UUID | str, state: State[Any], force: bool = True) -> None:
    """Sets a run's state, whatever the server's rules say of it."""
    store.ask(lambda c: c.set_flow_run_state(UUID(str(run_id)), state, force=force))
