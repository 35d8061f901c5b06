# Two commands on a fresh Debian 12/13 or Ubuntu 24.04: `make nightly` and `make test`. Needs only sh and python3 (3.11+).
#   PYTHON=python3.12   the interpreter for .venv          TEST_TORCH=0   torch is there already, in .venv            
#   JOBS=5              parallel test processes            ARGS="…"       passed to gpu-runbooks nightly or to pytest
PYTHON ?=
JOBS ?= 5
ARGS ?=
TEST_TORCH ?= 1
TORCH ?= torch==2.13.0
BIN := .venv/bin

# What holds the house: layers, circles, subjects, one table of outcomes, refusal codes, pages as they are made now, the recipe: `make check` runs it, `make test` the rest.
HOUSE := tests/test_structure.py tests/test_subjects.py tests/test_refusals.py tests/test_docs.py tests/test_contributing.py \
	tests/test_every_name_is_used.py tests/flows/test_one_look.py::test_one_place_reads_judges_and_reports

.PHONY: help setup setup-dev setup-test nightly test prove long scorecard check soak bench lock schema fmt clean

help:
	@echo "make nightly   set up, start the local server, diagnose this machine, write the report"
	@echo "make test      set up, install what the tests need (as root), run every test that prove, long and check do not"
	@echo "make prove     the fault harness in short, with its score, and mutation testing of what decides"
	@echo "make long      the proofs that try everything of a kind, and the slow ones on whole systems"
	@echo "make scorecard the whole fault harness; writes tests/SCORECARD.md and tests/scorecard.json"
	@echo "make check     ruff, mypy --strict, the rules of the house        make setup   only make .venv"
	@echo "make soak      the large counts, hours        make bench   measure transport and nightly run"
	@echo "make lock      write the requirements locks anew"

setup:
	@PYTHON="$(PYTHON)" sh .ci/setup.sh run

setup-dev:
	@PYTHON="$(PYTHON)" sh .ci/setup.sh dev

setup-test:
	@PYTHON="$(PYTHON)" TORCH="$(if $(filter 1,$(TEST_TORCH)),$(TORCH))" RAY=1 sh .ci/setup.sh dev

nightly: setup
	@$(BIN)/gpu-runbooks nightly $(ARGS)

test: setup-test
	@sh .ci/apt.sh
	$(BIN)/python -m pytest -q -n $(JOBS) --durations 25 -m "not soak and not prove and not long" $(addprefix --ignore=,$(filter %.py,$(HOUSE))) $(ARGS)

# The fault harness in a short profile with its score kept, then mutation testing of the modules that decide.
prove: setup-test
	@sh .ci/apt.sh
	$(BIN)/python -m tests.scorecard short -n $(JOBS) $(ARGS)
	$(BIN)/python -m tests.mutation

# The proofs that try everything of a kind, and the slow ones on whole systems: what `make test` has no time for.
long: setup-test
	@sh .ci/apt.sh
	$(BIN)/python -m pytest -q -n $(JOBS) --durations 15 -m "long and not soak" $(ARGS)

scorecard: setup-test
	@sh .ci/apt.sh .ci/apt-soak.txt
	$(BIN)/python -m tests.scorecard whole --write -n $(JOBS) --timeout 7200 $(ARGS)

check: setup-dev
	$(BIN)/ruff check .
	$(BIN)/mypy runbooks tasks flows deployments tests
	$(BIN)/python -m pytest -q $(HOUSE)

soak: setup-test
	@sh .ci/apt.sh .ci/apt-soak.txt
	$(BIN)/python -m pytest -q -m "soak and not prove" --timeout 7200 $(ARGS)
	$(BIN)/python -m tests.scorecard whole --write -n $(JOBS) --timeout 7200

bench: setup-test
	@sh .ci/apt.sh
	$(BIN)/python -m tests.bench $(ARGS)

lock:
	@sh .ci/lock.sh

schema: setup-dev
	@$(BIN)/python -c 'import json; from runbooks.core.report import Report; print(json.dumps(Report.model_json_schema(), indent=1))' \
		> runbooks/core/report.schema.json

fmt: setup-dev
	$(BIN)/ruff check --fix .

clean:
	rm -rf .venv .venv-ray build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
