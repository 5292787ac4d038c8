# Needs nothing but python3: every target sets up its own environment in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DATA ?= data

.PHONY: demo test test-oldest lint types docs site wheel fuzz mutate coverage bench bench-binary bench-gpu bench-hard bench-multiclass bench-regression bench-io bench-logistic bench-path bench-sdm bench-small bench-dask paper-dcd paper-sdm paper-avsf paper-walrus clean

demo: $(VENV)/.plot
	$(BIN)/dualsweep demo

test: lint types
	$(BIN)/pytest -n auto

# The core tests with the oldest Python and dependencies of pyproject.toml, where there is Python 3.10.
OLDEST := $(VENV)-oldest
OLDEST_PYTHON = $(shell for python in python3.10 "$$(pyenv prefix 3.10)/bin/python" $(PYTHON); do \
	"$$python" -c "" && echo "$$python" && break; done 2>/dev/null)
CORE := kernels rows multiclass svc svr io private_interfaces jit
test-oldest: $(OLDEST)/.core
	NUMBA_CACHE_DIR=$(OLDEST)/numba $(OLDEST)/bin/python -m pytest -q -n auto \
		$(foreach name,$(CORE),tests/test_$(name).py)

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(VENV)/.dev
	$(BIN)/mypy

# The site, into build/docs/html, with warnings as errors: the code in the pages runs, the examples of
# the gallery run, and every link leads somewhere. `make site SPHINXOPTS="-D plot_gallery=0"` leaves
# the gallery's pictures out, in a quarter of the time.
docs: $(VENV)/.dev
	$(BIN)/pytest -q -n auto tests/test_docs.py tests/test_pages.py tests/test_documented.py
	$(MAKE) site

site: $(VENV)/.dev
	$(BIN)/python -m sphinx -b html -W --keep-going $(SPHINXOPTS) -d build/docs/doctrees docs build/docs/html
	$(BIN)/python docs/links.py build/docs/html

# Arbitrary and damaged input, SECONDS of it for each of tests/fuzz_NAME.py; and certificates of
# extreme numbers, and of rows of up to 10^7 entries, against exact ones, about as long.
FUZZ := svmlight models stores
SECONDS ?= 600
fuzz: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --editable ".[fuzz]"
	for name in $(FUZZ); do $(BIN)/python tests/fuzz_$$name.py -max_total_time=$(SECONDS) || exit 1; done
	DUALSWEEP_EXAMPLES=$$((8 * $(SECONDS))) $(BIN)/pytest -q tests/hostile/test_numbers.py
	DUALSWEEP_EXAMPLES=$$(($(SECONDS) / 10)) DUALSWEEP_LONGEST=10000000 \
		$(BIN)/pytest -q -s tests/hostile/test_long_rows.py

# Does some test fail if a line of the mathematics is changed? MODULES are some of those that
# tests/mutation/mutate.py lists. Takes an hour for all of them.
mutate: $(VENV)/.mutation
	$(BIN)/python tests/mutation/mutate.py $(MODULES)

# Which lines of the mathematics do the tests of kernels run? Without numba's compiler, and without
# the tests that would then take minutes.
COVERAGE := NUMBA_DISABLE_JIT=1 $(BIN)/coverage run --append --rcfile=tests/mutation/coverage.ini \
	-m pytest -q -p no:xdist -o addopts=
coverage: $(VENV)/.mutation
	mkdir -p build && rm -f build/coverage
	$(COVERAGE) $(foreach name,random rows passes duals kernels subproblems schedules,tests/test_$(name).py) \
		-k "not active"
	$(COVERAGE) $(foreach name,newton multiclass momentum,tests/test_$(name).py) \
		-k "newton_passes or inner or a_sweep or shrunk or kernels or (certificate_ and not alpha) or slots or gap_of_w"
	$(BIN)/coverage report --rcfile=tests/mutation/coverage.ini

# Time to 1e-3 above the optimum against every peer: a table and a picture of scikit-learn's own and
# generated data, in some seven minutes; with DATA=folder those of the real ones, and the README's
# table.
# SUBSET="--data a9a" fills in a piece of it.
bench: $(VENV)/.dev
	DUALSWEEP_DATA=$(DATA) $(BIN)/python benchmarks/summary.py \
		$(if $(filter command,$(origin DATA)),--real) $(SUBSET)

# Time to equal primal suboptimality against scikit-learn, LIBLINEAR and ReHLine. DATA is a folder
# of NAME.npz files; see benchmarks/README.md.
bench-binary: $(VENV)/.dev
	DUALSWEEP_DATA=$(DATA) $(BIN)/python benchmarks/ratios.py \
		--data a9a w8a imdb blogs covtype --loss hinge squared_hinge --C 0.1 1 10 100 \
		--solvers dualsweep liblinear sklearn "sklearn[dual=False]" rehline \
		--repeats 3 --cap 60 --floor 5e-4 \
		--out benchmarks/outputs/binary.csv --table benchmarks/outputs/binary.md

# Linear probes, mnist and text on a GPU, against torch's L-BFGS and this machine's cores, for which
# torch has to be installed; CSR matrices and CUPY=1 need CuPy.
bench-gpu: $(VENV)/.dev
	DUALSWEEP_DATA=$(DATA) $(BIN)/python benchmarks/gpu.py --cells embeddings mnist \
		--who ours l-bfgs cpu
	DUALSWEEP_DATA=$(DATA) $(BIN)/python benchmarks/gpu.py --cells blogs imdb \
		--who ours l-bfgs cpu --library cupy

# Time against C, from easy to hard, of all our methods and all peers. Takes hours; can be filled in
# pieces, for instance with SUBSET="--data a9a --C 100".
bench-hard: $(VENV)/.dev
	DUALSWEEP_DATA=$(DATA) $(BIN)/python benchmarks/hard.py $(SUBSET) \
		--table benchmarks/outputs/hard.md --picture benchmarks/outputs/hard.png

# Crammer-Singer against LIBLINEAR and scikit-learn; Weston-Watkins with other block steps in the same
# sweep; block steps alone; test accuracies. Takes hours, and goes on where it was interrupted.
bench-multiclass: export DUALSWEEP_DATA = $(DATA)
bench-multiclass: $(VENV)/.dev
	$(BIN)/python benchmarks/ratios.py \
		--data mnist letter news20 sector --loss crammer_singer --C 0.1 1 10 \
		--solvers dualsweep liblinear sklearn --repeats 3 --cap 60 --floor 5e-4 \
		--out benchmarks/outputs/crammer_singer.csv --table benchmarks/outputs/crammer_singer.md
	$(BIN)/python benchmarks/decay.py \
		--data dna satimage mnist news20 letter sector authors1000 --schedule permuted --cap 120 \
		--table benchmarks/outputs/decay.md --picture benchmarks/outputs/decay.png
	$(BIN)/python benchmarks/decay.py \
		--data dna satimage mnist news20 letter sector authors1000 --schedule auto --cap 120 \
		--steps walrus --table benchmarks/outputs/decay_auto.md
	$(BIN)/python benchmarks/block_steps.py --table benchmarks/outputs/block_steps.md
	$(BIN)/python benchmarks/sdm_tables.py --data dna satimage mnist news20 20news letter sector

# Regression against LIBLINEAR and scikit-learn: numbers of the rows of covtype, mnist (dense) and
# blogs, from the others.
bench-regression: $(VENV)/.dev
	DUALSWEEP_DATA=$(DATA) $(BIN)/python benchmarks/ratios.py \
		--data elevation pixel length --C 0.1 1 10 100 \
		--loss epsilon_insensitive squared_epsilon_insensitive \
		--solvers dualsweep liblinear sklearn "sklearn[dual=False]" \
		--targets 1e-3 --repeats 3 --cap 60 --floor 5e-4 \
		--out benchmarks/outputs/regression.csv --table benchmarks/outputs/regression.md

# From file to rows and to model, against scikit-learn and LIBLINEAR; blogs and imdb of DATA as text.
bench-io: $(VENV)/.dev
	DUALSWEEP_DATA=$(DATA) $(BIN)/python benchmarks/io.py --table benchmarks/outputs/io.md

# Logistic regression against every solver of scikit-learn, LIBLINEAR, Snap ML and skglm, to 1e-3 and
# to 1e-6 above the optimum. Goes on where it was interrupted, and can be filled in pieces, for
# instance with SUBSET="--data a9a --C 1".
bench-logistic: $(VENV)/.dev
	DUALSWEEP_DATA=$(DATA) $(BIN)/python benchmarks/logistic.py $(SUBSET)

# Searches for C against GridSearchCV, cold fits and LIBLINEAR -C; see benchmarks/README.md.
bench-path: $(VENV)/.dev
	DUALSWEEP_DATA=$(DATA) $(BIN)/python benchmarks/searches.py

# Fits and searches of some hundred rows against scikit-learn, in milliseconds.
bench-small: $(VENV)/.dev
	$(BIN)/python benchmarks/small.py

# A wheel with prebuilt kernels, in dist/: for this Python, and for processors of the levels that
# this machine can run.
wheel: $(VENV)/.dev
	$(BIN)/python tools/wheel.py

# Training in partitions: rounds simulated for 2 to 256 of them, and time, rounds and bytes on local
# clusters of 1, 2 and 4 workers against in memory.
bench-dask: $(VENV)/.dev
	DUALSWEEP_DATA=$(DATA) $(BIN)/python benchmarks/clusters.py table
	$(BIN)/python benchmarks/clusters.py messages
	DUALSWEEP_DATA=$(DATA) $(BIN)/python benchmarks/clusters.py faults
	$(BIN)/python benchmarks/clusters.py large
	DUALSWEEP_DATA=$(DATA) $(BIN)/python benchmarks/partitions.py --rows 10000 \
		--max-rounds 150 --picture benchmarks/outputs/rounds.png

# Keerthi et al.'s Tables 4.2 and 4.3, into docs/sdm-tables.md.
bench-sdm: $(VENV)/.dev
	DUALSWEEP_DATA=$(DATA) $(BIN)/python benchmarks/sdm_tables.py

# What a paper measured, here: CSV files, pictures, and the tables of docs/papers/NAME.md. Some 15
# minutes each; can be filled in pieces, for instance with SUBSET="--data a9a".
paper-dcd paper-sdm paper-avsf paper-walrus: paper-%: $(VENV)/.dev
	DUALSWEEP_DATA=$(DATA) PYTHONPATH=benchmarks $(BIN)/python -m papers.$* $(SUBSET)

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.plot: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable ".[plot]"
	touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	touch $@ $(VENV)/.plot

$(OLDEST)/.core: pyproject.toml
	$(OLDEST_PYTHON) -m venv $(OLDEST)
	sed -n '/^dependencies/,/^]/ s/.*"\(.*\)>=\([0-9.]*\)".*/\1==\2.*/p' $< > $(OLDEST)/oldest.txt
	$(OLDEST)/bin/python -m pip install --quiet --constraint $(OLDEST)/oldest.txt --editable . \
		"pytest<9" pytest-xdist hypothesis psutil "pandas<2.2" "click<8.2"
	touch $@

$(VENV)/.mutation: pyproject.toml | $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --editable ".[mutation]"
	touch $@

clean:
	rm -rf $(VENV) $(OLDEST) build/docs docs/gallery docs/generated
