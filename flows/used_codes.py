"""Used one-time codes as records of the server: one create-once run a code, so that it counts once on all machines."""

import hashlib
from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.states import Completed, Failed

from flows import store
from flows.ends import clean_end

DEPLOYMENT = "approver-code/approver-code"
TAG = "approver-code"


def first_use(name: str, step: int, question: str) -> str:
    """Records that the code of `name` for that time step was given for `question`. Returns the question that it was
    given for first, this one or another. Raises what the API raises: then the code counts for nothing."""
    who = hashlib.sha256(name.encode()).hexdigest()[:16]
    made = store.create_run(
        DEPLOYMENT,
        {"who": name, "step": step, "question": question},
        state=Completed(message="a used code"),
        key=f"{TAG}/{who}/{step}",
        name=f"{TAG}-{who}-{step}",
        tags=[TAG],
        labels={},
    )
    return str(store.read_run(made.id).parameters["question"])


@flow(name="approver-code", persist_result=False, retries=0)
@clean_end
def approver_code(who: str, step: int, question: str) -> State[Any]:
    """Never run: its runs are used codes, created finished."""
    return Failed(message=f"a used code is a record, not a program ({who}, {step}, {question})")
