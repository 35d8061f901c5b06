"""What looks like a lost key and is a text, in a configuration file that the probe reads."""

from pathlib import Path

import pytest

from runbooks.core.fleet import Fleet, Node
from runbooks.core.knowledge import load_runbook
from runbooks.core.launch_config import Launch
from runbooks.core.verdict import Cause, Certainty, Diagnosis, State
from runbooks.launch.diagnose import Limits, diagnose
from tasks.context import Context
from tasks.launch.read import gather_distributed_setup
from tasks.transport.local import LocalHost

LIMITS = Limits(**load_runbook("distributed-setup").limit_values())
SERVICES = "image:\n  pytorch:2.4\nendpoint:\n  db-host:5432\nlr: 1.0e-4\n"
LOST = "training:\n  batch_size:8\n"
KEYS = ("image", "endpoint", "lr", "training.batch_size")


def check(folder: Path, text: str, keys: tuple[str, ...] = ()) -> Diagnosis:
    path = folder / "train.yaml"
    path.write_text(text)
    launch = Launch(name="gpt", nodes=("n1",), shm_gb=0, config=str(path), keys=keys)
    fleet = Fleet(nodes=(Node(name="n1", local=True),), launches=(launch,))
    seen = gather_distributed_setup(Context(fleet=fleet, target="gpt", open_host=lambda n: LocalHost(n.name)))
    return diagnose(type(seen).model_validate_json(seen.model_dump_json()), LIMITS)


def lost_keys(d: Diagnosis) -> list[Cause]:
    return [c for c in d.causes if c.slug.startswith("yaml-")]


@pytest.mark.incident("T2-yaml-text", came="open", fed="readers", known=True)
def test_an_image_and_a_host_on_lines_of_their_own(tmp_path: Path) -> None:
    """No key is confirmed lost, and nobody is told to rewrite the file."""
    d = check(tmp_path, SERVICES)
    assert [(c.slug, c.certainty) for c in lost_keys(d)] == [("yaml-swallowed-key", Certainty.POSSIBLE)] * 2
    assert all("image and tag" in c.decides[0] for c in lost_keys(d))
    assert not any("pytorch: 2.4" in x or "db-host: 5432" in x for x in d.do_now)


@pytest.mark.incident("T2-yaml-text", came="right", fed="readers", known=True, twin="the fleet file names the program's keys")
def test_known_keys_say_that_it_is_text(tmp_path: Path) -> None:
    assert lost_keys(check(tmp_path, SERVICES, KEYS)) == []


@pytest.mark.incident("T2-yaml-text", came="right", fed="readers", known=True, twin="it is a key that the program knows")
def test_a_known_key_is_lost(tmp_path: Path) -> None:
    d = check(tmp_path, LOST, KEYS)
    assert [(c.slug, c.certainty) for c in lost_keys(d)] == [("yaml-swallowed-key", Certainty.CONFIRMED)]
    assert d.state is State.UNHEALTHY
    assert any("batch_size: 8" in x for x in d.do_now)


@pytest.mark.incident("T2-yaml-text", came="right", fed="readers", known=True, twin="the whole file became one text; it does not load")
@pytest.mark.parametrize("text", ["lr:3\n", "training:\n  lr:3\n  epochs: 2\n"])
def test_a_file_that_can_mean_nothing_else(tmp_path: Path, text: str) -> None:
    (found,) = lost_keys(check(tmp_path, text))
    assert (found.slug, found.certainty) == ("yaml-swallowed-key", Certainty.CONFIRMED)


@pytest.mark.incident("T2-yaml-text", came="right", fed="readers", known=True, twin="a number that is neither tag nor port")
def test_a_number_with_an_exponent_is_likely_a_value(tmp_path: Path) -> None:
    (found,) = lost_keys(check(tmp_path, "training:\n  lr:1e-4\n"))
    assert found.certainty is Certainty.LIKELY
