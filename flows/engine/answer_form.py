"""The form in which a person answers in Prefect's UI."""

from typing import Any, Literal

from prefect.input import RunInput
from pydantic import Field, create_model

WHY = "what the next person should know; required for a plan that is withheld"
CODE = "six digits from your authenticator, if approver codes are set up; destructive plans need a new code each time"


def answer_form(choices: tuple[str, ...]) -> type[RunInput]:
    """The form: starts at reject, offers the plans by name."""
    fields: dict[str, Any] = {
        "decision": (
            Literal["reject", "approve"],
            Field(default="reject", description="approve runs exactly the chosen plan"),
        ),
        "choice": (Literal[choices], Field(default=choices[0], description="which of the plans above")),
        "code": (str, Field(default="", max_length=200, description=CODE)),
        "who": (str, Field(default="", max_length=80, description="your name, as the report will show it")),
        "why": (str, Field(default="", max_length=500, description=WHY)),
    }
    return create_model("Approval", __base__=RunInput, **fields)
