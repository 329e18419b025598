# Two commands do it all: `make chaos` runs the experiments, `make test` tests the harness. Both install what they need.
# Options of the command go through ARGS, for example: make chaos ARGS="--kuberay 1.5.0 -k operator"

PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/kuberay-chaos
ARGS ?=

.PHONY: help chaos test test-full bench doctor up down lint lock clean

help: ## what there is
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

# Installed anew when the lock file changes; the package itself is installed in place.
$(VENV)/.installed: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "kuberay-chaos needs Python 3.11 or newer; set PYTHON=")'
	@echo "Installing Python packages into $(VENV) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

chaos: $(VENV)/.installed ## stand the stack up and run the experiments
	@$(RUN) run $(ARGS)

test: $(VENV)/.installed lint ## static checks, unit tests, faults, flagship experiments, one known-bad version
	@$(VENV)/bin/pytest --chaos-level=flagship --chaos-recreate --chaos-remove $(ARGS)

test-full: $(VENV)/.installed lint ## everything; goes on where it was cut short
	@$(VENV)/bin/python -m pytest -p tests.resume --chaos-level=full --chaos-recreate $(ARGS)

bench: $(VENV)/.installed ## speed: stand-up, detection, overhead, side by side with KubeRay's own test
	@$(VENV)/bin/python -m benchmarks $(ARGS)

lint: $(VENV)/.installed ## format, lint, types, workflows
	@$(VENV)/bin/ruff format --check --quiet .
	@$(VENV)/bin/ruff check --quiet .
	@$(VENV)/bin/mypy
	@$(VENV)/bin/python -m tests.workflows

doctor: $(VENV)/.installed ## what this machine offers
	@$(RUN) doctor $(ARGS)

up: $(VENV)/.installed ## stand the stack up and leave it
	@$(RUN) up $(ARGS)

down: $(VENV)/.installed ## remove the stack, and the Docker engine if it was started for it
	@$(RUN) down $(ARGS)

lock: ## resolve dependencies anew into the lock file
	@$(VENV)/bin/python -m pip install --quiet 'uv>=0.8,<1'
	@$(VENV)/bin/uv pip compile --quiet --extra dev --generate-hashes --no-emit-index-url --no-annotate --universal pyproject.toml -o requirements.lock

clean: ## remove the virtual environment
	@rm -rf $(VENV)
