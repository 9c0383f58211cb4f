# `make demo` and `make test` need a Python (3.10 or newer) and nothing else.
# PYTHON names another interpreter, DEMO_ARGS more arguments for the demo, TEST_ARGS for pytest.
# SEEDS, FIRST and JOBS say how many schedules of faults `make soak-faults` plays, from which seed
# on, and how many at once.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/python -m pip --disable-pip-version-check install --quiet --editable

# Every process would compile the whole package anew, and the tests start thousands.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow test-all check fix bench fuzz clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s%s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.demo ## a minute or a few of real training on two ranks, shown live
	@$(BIN)/unilab-metrics demo $(DEMO_ARGS)

test: $(VENV)/.dev ## the tests, without the slow ones
	@$(BIN)/python -m pytest -m "not slow" $(TEST_ARGS)

test-slow: $(VENV)/.dev ## the slow tests alone: long outages, many kills, many messages
	@$(BIN)/python -m pytest -m slow $(TEST_ARGS)

test-all: $(VENV)/.dev ## all tests
	@$(BIN)/python -m pytest $(TEST_ARGS)

check: $(VENV)/.dev ## format, lint, types and layers
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/pyright
	@$(BIN)/lint-imports

fix: $(VENV)/.dev ## format, and repair what the linter can
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

FUZZ_SECONDS ?= 60

fuzz: $(VENV)/.dev ## every decoder against hostile bytes, FUZZ_SECONDS each
	@$(BIN)/python -c 'import atheris' 2>/dev/null || $(PIP_INSTALL) '.[fuzz]' >/dev/null 2>&1 || true
	@$(BIN)/python tests/fuzz/run_all.py $(FUZZ_SECONDS)

bench: $(VENV)/.dev ## the benchmarks, one after the other
	@set -e; for bench in benchmarks/bench_*.py; do echo "== $$bench"; $(BIN)/python $$bench; done

SEEDS ?= 200
FIRST ?= 1
JOBS ?= 3

soak-faults: $(VENV)/.dev ## hundreds of trainings with kills and stops, and a table of the losses
	@$(BIN)/python tests/soak/soak_faults.py --seeds $(SEEDS) --first $(FIRST) --jobs $(JOBS)

clean: ## remove the virtual environment, caches and build results; runs in logs/ stay
	rm -rf $(VENV) build dist .pytest_cache .hypothesis .ruff_cache .import_linter_cache .grimp_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "Python 3.10 or newer is needed; name one with PYTHON=")'
	@echo "Creating $(VENV) ..." >&2
	@$(PYTHON) -m venv $(VENV)

# The stamps keep a second `make` from asking pip again; pyproject.toml renews them.
$(VENV)/.demo: pyproject.toml | $(BIN)/python
	@echo "Installing the package and the demo's requirements ..." >&2
	@$(PIP_INSTALL) '.[demo]'
	@touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	@echo "Installing the package, the demo's and the developers' requirements ..." >&2
	@$(PIP_INSTALL) '.[demo,dev]'
	@touch $@ $(VENV)/.demo
