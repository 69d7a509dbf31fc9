# Every target makes what it needs: a virtual environment in .venv, filled by pip. PYTHON picks the interpreter (3.11 or newer).
PYTHON ?= python3
VENV ?= .venv
# Tests that run at once.
JOBS ?= 2
BIN := $(VENV)/bin

.PHONY: demo test test-python test-checked coverage lint types layers size links collect check clean
.DELETE_ON_ERROR:

demo: $(VENV)/.base ## train a small GPT, eager and then compiled, compare their speed, and explain what was compiled
	$(BIN)/flambeau run examples/gpt.py --compare --steps 40 --threads 2 --plot out/losses.svg
	$(BIN)/flambeau explain --output out/explain.txt examples/gpt.py --steps 4 --threads 2 --sample 0

test: $(VENV)/.test ## the tests, conformance with PyTorch apart (it needs PyTorch)
	$(BIN)/python -m pytest tests --ignore=tests/conformance -n $(JOBS)

test-python: $(VENV)/.test ## the tests with operator calls in Python alone
	FLAMBEAU_NATIVE=0 $(BIN)/python -m pytest tests --ignore=tests/conformance -n $(JOBS)

test-checked: $(VENV)/.test ## the operators again, every access of a kernel checked against its buffer
	FLAMBEAU_CHECKED=1 $(BIN)/python -m pytest tests/ops tests/property -n $(JOBS)

coverage: $(VENV)/.dev ## the tests again, and the share of lines that they run
	$(BIN)/python -m pytest tests --ignore=tests/conformance -n $(JOBS) --cov --cov-report=term

check: lint types layers size links collect ## everything that needs no run of a test

lint: $(VENV)/.dev
	$(BIN)/ruff check .

types: $(VENV)/.dev
	$(BIN)/pyright --pythonpath $(BIN)/python

layers: $(VENV)/.dev
	$(BIN)/lint-imports

size: $(VENV)/.base
	$(BIN)/python tools/size.py

links: $(VENV)/.base
	$(BIN)/python tools/doc_links.py
	$(BIN)/python tools/tour_links.py

# Imports every test, which finds names that moved away from under them.
collect: $(VENV)/.dev
	$(BIN)/python -m pytest tests --collect-only -qq -n 0 > /dev/null

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "flambeau needs Python 3.11 or newer: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)

# Compiled here, for importing takes three times as long where Python may not write what it compiles.
$(VENV)/.base: pyproject.toml | $(VENV)/bin/python
	$(BIN)/pip install -qq -e .
	$(BIN)/python -m compileall -q flambeau
	touch $@

$(VENV)/.test: pyproject.toml | $(VENV)/bin/python
	$(BIN)/pip install -qq -e '.[test]'
	$(BIN)/python -m compileall -q flambeau
	touch $@ $(VENV)/.base

$(VENV)/.dev: pyproject.toml | $(VENV)/bin/python
	$(BIN)/pip install -qq -e '.[dev]'
	touch $@ $(VENV)/.test $(VENV)/.base

clean:
	rm -rf $(VENV) .venv-* build dist *.egg-info .pytest_cache .ruff_cache .import_linter_cache .hypothesis
