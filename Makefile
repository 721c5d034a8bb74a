# Every target sets up .venv by itself, and only when pyproject.toml or constraints.txt changed: demo
# and studio with what the package needs to run, the others with what its development needs, too.
# PYTHON chooses the interpreter (3.11 or newer): make test PYTHON=python3.12
# TORCH chooses its release: make test TORCH=torch==2.11.0
# TORCH_INDEX chooses the build of torch: make demo TORCH_INDEX=https://download.pytorch.org/whl/cpu

PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || command -v python3)
VENV := .venv
BIN := $(VENV)/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
TORCH := $(or $(TORCH),$(shell grep '^torch==' constraints.txt))
READY := $(VENV)/.ready
DEV := $(VENV)/.dev
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check

.PHONY: help setup test test-bare test-all test-wheel dist test-lowest lint format docs demo studio clean
.DEFAULT_GOAL := help

help:  ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

# Bytecode is made of what is imported, when it is: of everything that is installed it takes longer
# than the rest of the installation. So it must be kept.
export PYTHONDONTWRITEBYTECODE :=

define install
	@test -n "$(PYTHON)" || { echo "make: Python 3.11 or newer is needed and none was found"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install --no-compile $(TORCH) $(TORCH_INDEX:%=--index-url %)
	@grep -v '^torch==' constraints.txt > $(VENV)/constraints.txt
	$(PIP) install --no-compile -c $(VENV)/constraints.txt -e ./models -e '.[$(1)]'
endef

$(READY): pyproject.toml models/pyproject.toml constraints.txt
	$(call install,app)
	@touch $@

$(DEV): pyproject.toml models/pyproject.toml constraints.txt
	$(call install,dev)
	@touch $(READY) $@

setup: $(DEV)  ## make .venv with everything that development needs

# Each worker takes tests in order, and steals at the end: few fixtures of a file are made twice.
WORKERS := -n auto --maxprocesses 8 --dist worksteal
PYTEST := $(BIN)/python -m pytest $(WORKERS)

test: $(DEV)  ## run the tests on all cores, and require that each refusal is made
	$(PYTEST) --refusals

test-bare: $(DEV)  ## run the tests without fcntl, fork and other things that Windows and macOS lack
	PYTHONWARNDEFAULTENCODING=1 $(PYTEST) --bare

test-all: $(DEV) test-lowest  ## run the long tests, too, with the coverage of lines, and test-lowest
	$(PYTEST) -m '' --cov --cov-report=term:skip-covered

# A second environment at the lower bounds of pyproject.toml (torch aside, see docs/dependencies.md).
.venv-lowest/.ready: pyproject.toml constraints.txt constraints-lowest.txt
	@test -x .venv-lowest/bin/python || $(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/python -m pip install --quiet $$(grep '^torch==' constraints.txt)
	.venv-lowest/bin/python -m pip install --quiet -c constraints-lowest.txt -e ./models -e '.[app,dask,diffusers,medical,monai,parquet,tensorboard]' pytest pytest-xdist hypothesis beartype scikit-learn scipy httpx2
	@touch $@

test-lowest: .venv-lowest/.ready  ## run all tests with the oldest packages we promise to support
	.venv-lowest/bin/python -m pytest $(WORKERS)

lint: $(DEV)  ## formatting, style, types, import rules, rules of the house
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/basedpyright
	$(BIN)/lint-imports
	$(BIN)/python studies/check_house.py

format: $(DEV)  ## format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

dist: $(DEV)  ## build what is released: an archive of the sources and a wheel of each package
	rm -rf dist
	$(BIN)/hatchling build -d dist
	cd models && ../$(BIN)/hatchling build -d ../dist
	@ls -l dist

test-wheel: $(DEV)  ## install the wheels where nothing else is; demo and studio answer, without a network
	$(BIN)/python -m pytest -m long -s tests/test_wheel.py

docs: $(DEV)  ## build the documentation, warnings as errors
	$(BIN)/sphinx-build --fail-on-warning --keep-going -b html docs docs/_build/html
	@echo "open docs/_build/html/index.html"

demo: $(READY)  ## see in minutes what factored guidance is for: a table, and a report to look at
	$(BIN)/fcfg demo

studio: $(READY)  ## ask what-ifs in the browser
	$(BIN)/fcfg studio

clean:  ## remove environments, caches and builds
	rm -rf .venv .venv-lowest docs/_build dist .pytest_cache .ruff_cache .hypothesis .coverage
