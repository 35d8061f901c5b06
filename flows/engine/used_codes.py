"""Used one-time codes as records of the server: one create-once run a code, so that it counts once on all machines."""

import hashlib

from prefect.states import Completed

from flows import records, store

TAG = "approver-code"


def first_use(name: str, step: int, question: str) -> str:
    """Records that the code of `name` for that time step was given for `question`. Returns the question that it was
    given for first, this one or another. Raises what the API raises: then the code counts for nothing."""
    who = hashlib.sha256(name.encode()).hexdigest()[:16]
    made = records.create_record(
        records.CODE,
        {"who": name, "step": step, "question": question},
        state=Completed(message="a used code"),
        key=f"{TAG}/{who}/{step}",
        name=f"{TAG}-{who}-{step}",
        tags=[TAG],
        labels={},
    )
    return str(store.read_run(made.id).parameters["question"])
