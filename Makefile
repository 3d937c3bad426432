# Two commands for a fresh machine: make train, make test.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt
JOBS ?= $(shell nproc)

.PHONY: train test browser test-slow chaos soak fuzz mutants lint type format docs bench clean

train: $(VENV)/.installed
	$(BIN)/brisk train --config zoo:snake_minute

# pytest-xdist can wait forever for a replaced worker; a worker that dies ends the run instead.
test: $(VENV)/.installed-test browser
	$(BIN)/pytest -n $(JOBS) --dist loadgroup --max-worker-restart 0

# Tests of the dashboard drive a real browser; without one, and where none can be installed in time, they skip.
browser:
	@command -v chromedriver > /dev/null || { test "$$(id -u)" = 0 && command -v apt-get > /dev/null && timeout 120 apt-get update -qq && \
		DEBIAN_FRONTEND=noninteractive timeout 600 apt-get install -y -qq chromium chromium-driver; } > /dev/null 2>&1 || echo "No browser: its tests will be skipped"

test-slow: $(VENV)/.installed-test
	$(BIN)/pytest -m slow

# Faults: processes killed at random moments, broken environments, full disks, lost writes.
chaos: $(VENV)/.installed-test
	$(BIN)/pytest -m chaos -rP tests/chaos

# Long runs must not grow. Other options: make soak SOAK="--hours 0.1 --jobs 2"
soak: $(VENV)/.installed-test
	$(BIN)/python -m tests.chaos.soak $(SOAK)

# File readers on input that a coverage-guided fuzzer invents, 10 minutes of the CPU each, or
# FUZZ_SECONDS=60. Sittings add up, so it can be stopped at any time.
fuzz: $(VENV)/.installed-test
	$(INSTALL) -e ".[fuzz]"
	$(BIN)/pytest -m chaos -rP tests/fuzz

# Plants bugs in a copy of the tree and checks that the tests notice them; continues where it stopped.
mutants: $(VENV)/.installed-test
	nice -n 10 $(BIN)/python tests/mutants/run.py

lint: $(VENV)/.installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

type: $(VENV)/.installed-test
	$(BIN)/mypy

format: $(VENV)/.installed-test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# A broken link or a page missing from the navigation fails the build; nothing is downloaded.
docs: $(VENV)/.installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

bench: $(VENV)/.installed-test
	$(BIN)/brisk bench env snake --obs features
	$(BIN)/brisk bench env snake --obs flood
	$(BIN)/brisk bench env snake --obs grid
	$(BIN)/brisk bench train snake
	$(BIN)/brisk bench legacy
	$(BIN)/brisk bench peers

clean:
	rm -rf $(VENV) site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(VENV)/.created:
	$(PYTHON) -m venv $(VENV)
	touch $@

# Torch is asked for by its exact version first: with it there, nothing asks for a larger build.
$(VENV)/.installed: $(VENV)/.created pyproject.toml constraints.txt
	@echo "Installing briskrl into $(VENV) (first time: a few minutes)"
	$(INSTALL) torch==2.13.0
	$(INSTALL) -e .
	touch $@

$(VENV)/.installed-test: $(VENV)/.installed
	$(INSTALL) -e ".[test]"
	touch $@

$(VENV)/.installed-docs: $(VENV)/.installed
	$(INSTALL) -e ".[docs]"
	touch $@
