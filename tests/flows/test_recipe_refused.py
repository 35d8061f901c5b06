"""CONTRIBUTING.md's recipe "Find out why a run was refused", done as the page says it, on a run that was refused."""

import re
from argparse import Namespace

import pytest

from deployments.cli.facts import facts_of
from deployments.cli.main import main
from deployments.cli.run import finish
from runbooks.core.outcome import Outcome
from runbooks.core.refusal import RefusalCode
from tests.support.engine_rig import Rig
from tests.support.freezing import frozen
from tests.test_contributing import PAGE, RECIPES

RECIPE = RECIPES["Find out why a run was refused"]


def test_the_code_is_found_in_the_report_and_in_the_table(rig: Rig, capsys: pytest.CaptureFixture[str]) -> None:
    w = rig.world()
    with frozen("change window"):
        run = w.run("auto")
    assert "`gpu-runbooks show RUN`" in RECIPE
    assert main(["show", run]) == 0
    said = capsys.readouterr().out
    assert "What held it back" in said
    assert finish(Namespace(json=False), facts_of(run)) == Outcome.REFUSED.exit_code
    assert re.search(r"^- Held back \(frozen\): .*change window", capsys.readouterr().out, re.M), "the terminal says it, too"
    assert main(["approve", run, "--who", "me"]) == 2
    assert "is no waiting run (it is: Refused by a guard; `gpu-runbooks show" in capsys.readouterr().err
    (report,) = w.reports()
    (refusal,) = report["refusals"]
    assert refusal["code"] == RefusalCode.FROZEN
    assert refusal["why"] in said
    rows = dict(re.findall(r"^\| `([\w-]+)` \| .+ \| (.+) \|$", PAGE.partition("<!-- refusals -->")[2], re.M))
    assert "gpu-runbooks unfreeze" in rows[refusal["code"]]
    assert rows.keys() == {c.value for c in RefusalCode}


def test_its_other_commands(rig: Rig, capsys: pytest.CaptureFixture[str]) -> None:
    w = rig.world()
    for line in ("gpu-runbooks status", "gpu-runbooks fleet check FILE --policy FILE"):
        assert f"`{line}`" in RECIPE
        words = line.replace("FILE", str(w.fleet), 1).replace("FILE", str(rig.policy)).split()[1:]
        assert main(words) == 0, capsys.readouterr()
