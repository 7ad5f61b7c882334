# `make demo` and `make test` need only git, make and Python: they make .venv themselves.

PYTHON ?= python3
PYTEST_FLAGS ?=
BIN := .venv/bin
STAMP := .venv/installed.stamp

export TF_CPP_MIN_LOG_LEVEL ?= 3

.PHONY: demo test test-all lint clean

demo: $(STAMP)
	$(BIN)/python examples/demo.py --directory build/demo

test: $(STAMP)
	$(BIN)/python -m pytest $(PYTEST_FLAGS)

test-all: $(STAMP)
	$(BIN)/python -m pytest -m "slow or not slow" $(PYTEST_FLAGS)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

clean:
	rm -rf .venv build dist *.egg-info .pytest_cache .ruff_cache .hypothesis

$(STAMP): setup.py pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[dev]"
	touch $@
