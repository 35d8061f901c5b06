"""What the deployment's form in the UI offers: targets of the fleet, and the runbook's own options with their help."""

import inspect
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, GetJsonSchemaHandler, create_model
from pydantic_core import CoreSchema

from flows.config import load_fleet
from flows.spec import any_node
from flows.specs import load_spec
from runbooks.core.config import ConfigError
from runbooks.core.fleet import Fleet
from runbooks.core.knowledge import Option, load_runbook
from runbooks.core.names import LABEL

F = TypeVar("F")
MOST_NAMES = 500  # a longer list is no help; the name is typed then
TYPED = "a name of the fleet file, label:KEY=VALUE for every node with that label, or user@host[:port] (diagnose only)"
NOT_TYPED = ("choice", "fleet", "policy", "out", "trigger")
"""Parameters that no form has: a deployment holds the files, and what starts a run sets the others."""


def without(*names: str) -> Callable[[F], F]:
    """Decorator of a flow: its signature, and so every form made of it, leaves these parameters out.

    The flow takes them all the same: from a deployment, from a program, from a run that an earlier release created. The server
    checks a run's parameters against the form and lets those pass that are not in it.
    """

    def of(flow: F) -> F:
        made: Any = flow
        full = inspect.signature(made.fn)
        made.__signature__ = full.replace(parameters=[p for name, p in full.parameters.items() if name not in names])
        return flow

    return of


def offered(slug: str, fleet: Fleet) -> tuple[str, ...]:
    """What the form lists for this runbook: its own things first, then the nodes that it can be about, then labels that only
    such nodes have."""
    spec = load_spec(slug)
    applies = spec.about or spec.nightly or any_node
    others = spec.nightly_targets(fleet) or spec.targets(fleet)  # those of a nightly are whole: without a part that is typed
    nodes = {n.name: applies(fleet, n) for n in fleet.nodes}
    labels: dict[str, bool] = {}
    for n in fleet.nodes:
        for label in (f"{LABEL}{k}={v}" for k, v in n.labels.items()):
            labels[label] = labels.get(label, True) and nodes[n.name]
    fitting = [name for name, fits in (*nodes.items(), *sorted(labels.items())) if fits]
    return tuple(dict.fromkeys((*others, *fitting)))


class TargetForm:
    """Makes the target a list to choose from, with a second tab for one that is typed.

    The fleet is the one that GPU_RUNBOOKS_FLEET names where the schema is made (`gpu-runbooks up --fleet`,
    `prefect deploy`). A run may be given another fleet file, so a typed name is checked by the run itself.
    """

    def __init__(self, slug: str) -> None:
        self.slug = slug

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """The schema of the parameter."""
        schema = dict(handler(core))
        try:
            fleet = load_fleet(None)
        except ConfigError:
            return schema
        names = offered(self.slug, fleet)
        if not names or len(names) > MOST_NAMES:
            return schema | {"minLength": 1}
        listed = {"title": f"Of fleet {fleet.name}", "type": "string", "enum": list(names)}
        typed = {"title": "Typed", "type": "string", "minLength": 1, "description": TYPED}
        return {"anyOf": [listed, typed]}


AtOnce = Annotated[int, Field(ge=1, le=64)]
"""How many at the same time."""


def target_type(slug: str) -> Any:
    """The type of a runbook's parameter `target`."""
    return Annotated[str, TargetForm(slug)]


class Options(BaseModel):
    """A runbook's own options: text, checked; unknown ones are refused."""

    model_config = ConfigDict(extra="forbid")

    def given(self) -> dict[str, str]:
        """Those that were filled in."""
        return {name: text for name, text in self.model_dump().items() if text}


def options_type(slug: str) -> type[Options]:
    """The type of a runbook's parameter `options`, made from runbook.yaml."""
    fields: dict[str, Any] = {name: _field(name, o) for name, o in load_runbook(slug).options.items()}
    return create_model("Options", __base__=Options, **fields)


def _field(name: str, option: Option) -> tuple[Any, Any]:
    unit = f" [{option.unit}]" if option.unit else ""
    example = f" Example: {option.example}" if option.example else ""
    extra: dict[str, Any] = {"enum": ["", *option.choices]} if option.choices else {}
    about = Field(
        default="",
        title=f"{option.title}{unit}",
        description=f"{option.help}{example}",
        pattern=f"^(?:{option.pattern})?$" if option.pattern else None,
        json_schema_extra=extra or None,
    )
    return Annotated[str, AfterValidator(partial(_chosen, name, option.choices))], about


def _chosen(name: str, choices: tuple[str, ...], text: str) -> str:
    if choices and text and text not in choices:
        raise ValueError(f"{name}: choose one of {', '.join(choices)}")
    return text
