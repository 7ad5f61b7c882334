# `make demo` and `make test` need only git, make and Python: they make .venv themselves.

PYTHON ?= python3
PYTEST_FLAGS ?= -n 2 --dist loadfile
BIN := .venv/bin
STAMP := .venv/installed.stamp

export TF_CPP_MIN_LOG_LEVEL ?= 3

.PHONY: demo serve-demo test test-all coverage versions compatibility lint bench clean

demo: $(STAMP)
	$(BIN)/python examples/demo.py --directory build/demo

# Needs a C compiler. What tags in the end is a C program: no Python, no Keras.
serve-demo: $(STAMP) build/tagger/1
	$(MAKE) -C savedmodel_demo/c_client PYTHON=$(abspath $(BIN)/python)
	build/tag build/tagger/1 tell Paris the bus from new york to boston goes at quarter to nine

build/tagger/1: | $(STAMP)
	$(BIN)/python savedmodel_demo/export.py $@

test: $(STAMP)
	$(BIN)/python -m pytest $(PYTEST_FLAGS)

test-all: $(STAMP)
	$(BIN)/python -m pytest -m "slow or not slow" $(PYTEST_FLAGS)

coverage: $(STAMP)
	$(BIN)/python -m pytest --cov keras_crf --cov-report term-missing --cov-fail-under 95 $(PYTEST_FLAGS)

# For the Pythons that are installed; the others are skipped by name.
versions: $(STAMP)
	$(BIN)/nox --session tests

compatibility: $(STAMP)
	$(BIN)/nox --session compatibility

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(STAMP)
	$(BIN)/python benchmarks/compare.py
	$(BIN)/python benchmarks/fit_step.py

clean:
	rm -rf .venv .nox build dist *.egg-info .pytest_cache .ruff_cache .hypothesis

$(STAMP): setup.py pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[dev]"
	touch $@
