# Needs nothing but python3: every target sets up its own environment in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DATA ?= data

.PHONY: demo test lint types bench-binary clean

demo: $(VENV)/.plot
	$(BIN)/dualsweep demo

test: lint types
	$(BIN)/pytest -n auto

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

# Time to equal primal suboptimality against scikit-learn, LIBLINEAR and ReHLine. DATA is a folder
# of NAME.npz files; see benchmarks/README.md.
bench-binary: $(VENV)/.dev
	DUALSWEEP_DATA=$(DATA) $(BIN)/python benchmarks/ratios.py \
		--data a9a w8a imdb blogs covtype --loss hinge squared_hinge --C 0.1 1 10 100 \
		--solvers dualsweep liblinear sklearn "sklearn[dual=False]" rehline \
		--repeats 3 --cap 60 --floor 5e-4 \
		--out benchmarks/outputs/binary.csv --table benchmarks/outputs/binary.md

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.plot: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable ".[plot]"
	touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	touch $@ $(VENV)/.plot

clean:
	rm -rf $(VENV)
