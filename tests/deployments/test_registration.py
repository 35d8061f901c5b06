"""Deployments: one source for prefect.yaml and for `up`, the forms they make, labels as targets, and no duplicates."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from prefect.utilities.callables import parameter_schema
from prefect.utilities.schema_tools import validate

from deployments.catalog import programs
from deployments.cli.run_options import check_options
from deployments.errors import CommandError
from deployments.prefect_yaml import PATH, render
from deployments.register import load, offering, register_all
from flows import store
from flows.config import load_fleet
from flows.fan_out import nodes_with
from flows.form import offered
from flows.specs import SLUGS, entrypoint
from runbooks.core.config import ConfigError
from runbooks.core.knowledge import load_runbook
from tests.support.engine_rig import REPO, Rig

FLEET = str(REPO / "deployments/fleet.example.yaml")


def form(entrypoint: str, fleet: str | None = FLEET) -> dict[str, Any]:
    with offering(fleet):
        return dict(parameter_schema(load(entrypoint)).model_dump_for_openapi())


def test_prefect_yaml_is_what_the_catalogue_makes() -> None:
    assert PATH.read_text(encoding="utf-8") == render(), "run: python -m deployments.prefect_yaml"


def test_one_deployment_per_runbook_with_module_entrypoints() -> None:
    found = {s.name: s for s in programs()}
    assert set(SLUGS) | {"nightly", "sweep"} <= set(found)
    for spec in found.values():
        assert load(spec.entrypoint).name == spec.name  # `name` is the flow's, too
        assert spec.description


OLD = sorted(p.stem for p in (REPO / "flows").glob("*.py") if "The old name of flows.runbooks," in p.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", OLD)
def test_a_deployment_of_an_earlier_version_finds_its_flow(name: str) -> None:
    assert len(OLD) == 11
    slug = name.replace("_", "-")
    assert load(f"flows.{name}.{name}") is load(entrypoint(slug))


def test_the_other_old_entry_points_load() -> None:
    olds = ("nightly.nightly", "nightly.sweep", "nightly_shard.nightly_shard")
    assert {load(f"flows.{old}").name.replace("-", "_") for old in olds} == {old.partition(".")[2] for old in olds}


def test_no_flow_is_made_of_a_name_that_is_no_runbook() -> None:
    with pytest.raises(AttributeError, match="no attribute 'no_such'"):
        load("flows.runbooks.no_such")


LABELS = ("label:gpu=h100", "label:zone=eu-1")  # node-a alone has them
EVERY_NODE = ("local", "node-a", "node-b", "node-c", *LABELS)
APPLIES_TO = dict.fromkeys(SLUGS, EVERY_NODE) | {
    "container-death": ("node-a", *LABELS),
    "ray-job": ("node-a", *LABELS),
    "stale-rendezvous": ("main", "other", "node-a", "node-b", *LABELS),
    "distributed-setup": ("big-train", "node-a", "node-b", *LABELS),
    "stuck-spawning": ("workers",),
    "fleet-sync": ("fleet",),
}


@pytest.mark.parametrize("slug", SLUGS)
def test_form_of_a_runbook_offers_what_it_applies_to_and_explains_itself(slug: str) -> None:
    made, book = form(entrypoint(slug)), load_runbook(slug)
    assert list(made["properties"]) == ["target", "mode", *(["options"] if book.options else [])]
    assert '"null"' not in json.dumps(made), 'Prefect shows such a field as: Property is type "None"'
    listed, typed = made["properties"]["target"]["anyOf"]
    assert tuple(listed["enum"]) == APPLIES_TO[slug]
    assert "label:" in typed["description"]
    first = made["properties"]["target"]["description"]
    assert [kind for kind in book.actions if kind not in first] == []
    assert ("Changes nothing." in first) is not bool(book.actions)
    assert first.startswith(str(load(entrypoint(slug)).description).partition("\n")[0]), "what it decides comes first"
    for text in ("“diagnose” reads", "“approve” shows", "“auto” acts"):
        assert text in made["properties"]["mode"]["description"]
    assert "**" not in str(made["properties"])  # one of Prefect's two UIs shows no Markdown in forms
    options = made.get("definitions", {}).get("Options", {}).get("properties", {})
    assert set(options) == set(book.options)
    for name, field in options.items():
        option = book.options[name]
        assert option.title in field["title"]
        assert option.unit in field["title"]
        assert option.help in field["description"]


BEFORE: dict[str, Any] = {"target": "node-a", "mode": "diagnose", "options": {}, "choice": "", "fleet": None, "policy": None, "out": None}
"""What deployments, schedules and runs of an earlier release hold, and what programs send."""


@pytest.mark.parametrize("slug", SLUGS)
def test_what_a_form_does_not_show_is_taken_all_the_same(slug: str) -> None:
    given = BEFORE | {"trigger": "by hand"}
    validate(given, form(entrypoint(slug)), raise_on_error=True)  # as the server does
    assert set(load(entrypoint(slug)).validate_parameters(given)) == set(given)


SWEPT = {"nightly": ("at_once", "shards", "detail"), "sweep": ("at_once",)}


@pytest.mark.parametrize("name", SWEPT)
def test_a_sweep_needs_no_field_and_says_that_it_changes_nothing(name: str) -> None:
    made = form(entrypoint(name))
    assert tuple(made["properties"]) == SWEPT[name]
    assert "required" not in made, "a quick run starts it"
    assert '"null"' not in json.dumps(made)
    assert "changes nothing" in next(iter(made["properties"].values()))["description"]
    given = {"fleet": FLEET, "out": None} | ({"policy": None} if name == "nightly" else {})
    validate(given, made, raise_on_error=True)
    assert load(entrypoint(name)).validate_parameters(given).items() >= given.items()


def test_a_label_that_another_node_has_as_well_is_not_listed() -> None:
    found = load_fleet(FLEET)
    both = [n.model_copy(update={"labels": {"zone": "eu-1"}}) if n.name == "node-b" else n for n in found.nodes]
    assert offered("ray-job", found.model_copy(update={"nodes": tuple(both)})) == ("node-a", "label:gpu=h100")


def test_options_that_the_runbook_does_not_know_are_refused_by_name() -> None:
    assert check_options("memory-pressure", {"batch": "16", "checkpointing": "yes"})
    for given in ({"bach": "16"}, {"batch": "sixteen"}, {"checkpointing": "perhaps"}):
        with pytest.raises(CommandError, match="takes: log, batch"):
            check_options("memory-pressure", given)
    with pytest.raises(CommandError, match=r"--option bach: no such option; .*; nearest: batch"):
        check_options("memory-pressure", {"bach": "16"})


def test_a_damaged_fleet_file_leaves_a_plain_text_field(tmp_path: Path) -> None:
    (tmp_path / "fleet.yaml").write_text("nodes: []\n")
    assert form("flows.runbooks.zombie_gpu", str(tmp_path / "fleet.yaml"))["properties"]["target"]["type"] == "string"


def test_labels_name_nodes_and_never_everything() -> None:
    fleet = load_fleet(FLEET)
    assert nodes_with(fleet, "label:gpu=h100") == ("node-a",)
    for wrong in ("label:gpu=b200", "label:gpu", "label:", "label:gpu=", "label:*=*"):
        with pytest.raises(ConfigError, match="label"):
            nodes_with(fleet, wrong)


def deployments() -> dict[str, Any]:
    found = store.ask(lambda c: c.read_deployments(limit=200))
    assert len({d.name for d in found}) == len(found)
    return {d.name: d for d in found}


@pytest.mark.parametrize("times", [3, pytest.param(10, marks=pytest.mark.soak)])
def test_registering_again_leaves_no_duplicate_and_keeps_what_people_set(rig: Rig, times: int) -> None:
    register_all(fleet=FLEET)
    before = deployments()
    nightly = before["nightly"]
    store.ask(lambda c: c.update_deployment_schedule(nightly.id, nightly.schedules[0].id, active=True))
    for _ in range(times):
        register_all()
    after = deployments()
    assert {n: d.id for n, d in after.items()} == {n: d.id for n, d in before.items()}
    assert [s.active for s in after["nightly"].schedules] == [True]
    assert after["zombie-gpu"].parameters == before["zombie-gpu"].parameters
    assert after["zombie-gpu"].parameters["fleet"] == FLEET
    assert "node-a" in after["zombie-gpu"].parameter_openapi_schema["properties"]["target"]["anyOf"][0]["enum"]
    assert set(after) == {s.name for s in programs()}, "what is no program is not listed"
    store.ask(lambda c: c.update_deployment_schedule(nightly.id, after["nightly"].schedules[0].id, active=False))


def test_wrong_input_is_refused_by_the_server_at_once(rig: Rig) -> None:
    for wrong in ({"mode": "everything"}, {"options": {"bach": "16"}}, {"options": {"batch": "many"}}, {"target": ""}):
        with pytest.raises(Exception, match=r"409|422|valid"):
            store.create_run(
                "memory-pressure/memory-pressure", {"target": "n"} | wrong, state=None, key=None, name=None, tags=[],
                labels={},
            )  # fmt: skip


def test_a_label_starts_one_run_per_node_and_a_retry_no_more(rig: Rig, tmp_path: Path) -> None:
    worlds = [rig.world() for _ in range(2)]
    fleet = tmp_path / "fleet.yaml"
    nodes = [{"name": w.name, "local": True, "labels": {"gpu": "toy"}} for w in worlds]
    fleet.write_text(yaml.safe_dump({"name": "fan", "nodes": nodes}))
    out = str(tmp_path / "reports")
    run = worlds[0].run("diagnose", target="label:gpu=toy", fleet=str(fleet), out=out)
    state = store.read_run(run).state
    assert state is not None
    assert state.name == "2 run(s) started"
    worlds[0].work()
    assert {p.parent.name for p in Path(out).rglob("2*.json")} == {w.name for w in worlds}
    refused = worlds[0].run("diagnose", target="label:gpu=none", fleet=str(fleet), out=out)
    assert "no node of fleet" in str(store.read_run(refused).state)
