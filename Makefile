# Needs GNU make and Python 3.11 or newer. Everything else goes into .venv.
# Choose an interpreter with: make setup PYTHON=/path/to/python3

SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

export PIP_DISABLE_PIP_VERSION_CHECK := 1

BIN := .venv/bin
PY := $(BIN)/python
PIP := $(PY) -m pip --quiet
# Wheels only: a source build would fetch build tools that no hash covers.
INSTALL := $(PIP) install --require-hashes --only-binary :all:

# Extra arguments for pytest, for example: make test PYTEST_ARGS="-n 0 -x -k zone"
# One process runs the tests on clusters, so that Spark and Dask start once; see tests/conftest.py.
PYTEST_ARGS ?= -n 2 --dist loadgroup

.PHONY: help
help:
	@echo "make demo           fit synthetic visits, print the result, write report.html"
	@echo "make check          lint, type check and run the fast tests: under two minutes on two cores"
	@echo "make test           lint, type check, build the documentation and run all tests"
	@echo "make lint           ruff and mypy only"
	@echo "make format         rewrite the code with ruff"
	@echo "make bench          speed benchmarks"
	@echo "make bench-quality  clustering quality benchmarks"
	@echo "make bench-scale    memory and time per pass on 20 million records, also with Dask"
	@echo "make docs           build the documentation into site/"
	@echo "make setup          create .venv (the other targets call it)"
	@echo "make setup-scale    add Dask and Spark to it (the tests call it)"
	@echo "make requirements   pin the newest versions in requirements/"
	@echo "make fuzz           fuzz the file readers and the API (FUZZ_SECONDS for each reader)"
	@echo "make chaos          cause faults on real clusters, disks and ledgers: the table of docs/reliability.md (hours; goes on where it was stopped)"
	@echo "make kill-ledger    kill writers of a ledger 300 times: nothing may be lost or overspent"
	@echo "make audit          replay 1000 hard pairs of each proved method, small worlds, attacks; rewrites docs/audit.md (hours; goes on if stopped)"
	@echo "make test-oldest    run the tests with the oldest supported dependencies, in .venv-oldest"
	@echo "make sbom           write sbom.json, a bill of materials"
	@echo "make clean          remove .venv, caches and build results"

# --- set-up ---------------------------------------------------------------------------------------

# A name on the PATH may be an empty shim, so each candidate is run before it is chosen.
FIND_PYTHON = \
	probe='import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))'; \
	python=; \
	if [ -n "$(PYTHON)" ]; then \
		if "$(PYTHON)" -c "$$probe" >/dev/null 2>&1; then python="$(PYTHON)"; fi; \
	else \
		for name in python3.14 python3.13 python3.12 python3.11 python3 python; do \
			if "$$name" -c "$$probe" >/dev/null 2>&1; then python="$$name"; break; fi; \
		done; \
	fi; \
	if [ -z "$$python" ]; then \
		echo "error: needs Python 3.11 or newer with the venv and ensurepip modules; found none$(if $(PYTHON), at $(PYTHON))." >&2; \
		echo "Install one (on Debian and Ubuntu also python3-venv), or name it: make setup PYTHON=/path/to/python3" >&2; \
		exit 1; \
	fi

.PHONY: setup
setup: .venv/.setup

# The editable install needs the package's metadata only once; edits under src/ are seen at once.
.venv/.setup: pyproject.toml requirements/dev.txt Makefile
	@if ! $(PY) -c 'import pip' >/dev/null 2>&1; then \
		$(FIND_PYTHON); \
		echo "Creating .venv with $$("$$python" --version)"; \
		"$$python" -m venv --clear .venv; \
	fi
	@echo "Installing the pinned requirements (the first time takes a minute or two)"
	@$(INSTALL) -r requirements/dev.txt
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@$(PIP) check
	@touch $@

# Spark is large, has no wheel and needs Java: without it, its tests skip and say so.
.PHONY: setup-scale
setup-scale: .venv/.scale

.venv/.scale: .venv/.setup requirements/scale.txt requirements/spark.txt
	@echo "Installing Dask and Spark (400 MB to load)"
	@$(INSTALL) -r requirements/scale.txt
	@$(PIP) install --require-hashes --no-deps --no-build-isolation -r requirements/spark.txt || \
		echo "pyspark could not be installed: the tests of the Spark engine will be skipped"
	@touch $@

.venv/.docs: .venv/.setup requirements/docs.txt
	@$(INSTALL) -r requirements/docs.txt
	@touch $@

# --- use ------------------------------------------------------------------------------------------

.PHONY: demo
demo: setup
	@$(BIN)/dpkmeans demo

# For every commit: values, noise, ledger, records on their way in, the synopsis, and the order of the layers. About 75
# CPU seconds of tests; no browser, no cluster, nothing marked slow.
FAST_TESTS := tests/core tests/storage tests/data tests/planning tests/privacy tests/synopsis \
	tests/test_layers.py tests/test_version.py tests/test_import_time.py

.PHONY: check
check: lint
	$(PY) -m pytest $(PYTEST_ARGS) -m "not slow and not cluster and not browser" $(FAST_TESTS)

# For every push. The test run comes last, so that its closing line closes the output.
.PHONY: test
test: lint setup-scale docs
	$(PY) -m pytest $(PYTEST_ARGS)

.PHONY: lint
lint: setup
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

.PHONY: format
format: setup
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

.PHONY: bench bench-quality bench-scale
# Both work without any data: what is not found is left out, or made up in its shape, and that is said. A part:
# make bench BENCH_ARGS="--parts workloads --only a,b", make bench-quality QUALITY_ARGS="--runs 3 --sets iris,corner".
# All of it takes hours (HARD_ARGS="--runs 3" shortens the second part): --minutes 10 in BENCH_ARGS, QUALITY_ARGS or MANY_ARGS ends that part and names what it left out.
bench: setup
	$(PY) benchmarks/speed.py $(BENCH_ARGS)

bench-quality: setup
	$(PY) benchmarks/quality.py $(QUALITY_ARGS)
	$(PY) benchmarks/quality.py --hard $(HARD_ARGS)
	$(PY) -m benchmarks.many_features $(MANY_ARGS)

bench-scale: setup-scale
	$(PY) benchmarks/scale.py

.PHONY: docs
docs: .venv/.docs
	NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict

# --- safety ---------------------------------------------------------------------------------------

FUZZ_SECONDS ?= 60
FUZZ_CALLS ?= 10000

# atheris has wheels for some platforms only; without it, the mutations and hypothesis still run.
.PHONY: fuzz
fuzz: setup
	@if $(PIP) install --target .venv/fuzz --upgrade --no-deps --no-compile --require-hashes --only-binary :all: \
		-r requirements/fuzz.txt; then \
		for target in model synopsis transcript ledger bounds; do \
			echo "atheris: $$target, $(FUZZ_SECONDS) seconds"; \
			PYTHONPATH=.venv/fuzz $(PY) fuzz/run.py $$target -max_total_time=$(FUZZ_SECONDS) -verbosity=0 || exit 1; \
		done; \
	else \
		echo "atheris has no wheel for this machine: skipping coverage-guided fuzzing"; \
	fi
	DPKMEANS_FUZZ_CALLS=$(FUZZ_CALLS) $(PY) -m pytest $(PYTEST_ARGS) tests/safety/test_fuzzed_calls.py \
		tests/safety/test_untrusted_files.py

# On Dask, Spark standalone, a small tmpfs and a network of its own where that is permitted. CHAOS_ARGS="--times 2 Dask"
# runs the faults with that word, twice each.
CHAOS_ARGS ?= --minutes 60

.PHONY: chaos
chaos: setup-scale
	$(PY) -m benchmarks.chaos --resume build/chaos.jsonl --page docs/reliability.md $(CHAOS_ARGS)

.PHONY: kill-ledger
kill-ledger: setup
	$(PY) benchmarks/kill_ledger.py --kills 300

# Goes on where it ended: build/audit keeps the result of each of its about 110 pieces (make clean removes them).
# AUDIT_ARGS="--minutes 60" ends it after about an hour, AUDIT_ARGS="--only replay" runs a part.
AUDIT_ARGS ?=

.PHONY: audit
audit: setup
	$(PY) -m tools.audit_page docs/audit.md --keep build/audit $(AUDIT_ARGS)

OLDEST := .venv-oldest/bin/python

.venv-oldest/.setup: pyproject.toml requirements/oldest.txt
	@$(FIND_PYTHON); "$$python" -c 'import sys; sys.exit(sys.version_info[:2] > (3, 12))' || \
		{ echo "error: the oldest numpy and numba need Python 3.11 or 3.12: make test-oldest PYTHON=..." >&2; exit 1; }; \
	"$$python" -m venv --clear .venv-oldest
	@$(OLDEST) -m pip --quiet install --no-compile --require-hashes --only-binary :all: -r requirements/oldest.txt
	@$(OLDEST) -m pip --quiet install --no-deps --no-build-isolation --editable .
	@touch $@

.PHONY: test-oldest
test-oldest: .venv-oldest/.setup
	$(OLDEST) -m pytest $(PYTEST_ARGS) -m "not slow"

.PHONY: sbom
sbom: setup
	$(PY) tools/sbom.py sbom.json

# --- upkeep ---------------------------------------------------------------------------------------

# One version of each package for all Python versions, and no address in the result.
TOOLS := .venv/tools
COMPILE := $(TOOLS)/bin/uv --quiet pip compile --universal --python-version 3.11 --fork-strategy fewest \
	--upgrade --generate-hashes --no-header --no-emit-index-url --no-emit-find-links

.PHONY: requirements
requirements:
	@$(FIND_PYTHON); "$$python" -m venv --clear $(TOOLS)
	$(TOOLS)/bin/python -m pip --quiet install --require-hashes --only-binary :all: -r requirements/tools.txt
	$(COMPILE) --extra all --extra dev \
		pyproject.toml requirements/build.in --output-file requirements/dev.txt
	$(COMPILE) --extra docs --constraint requirements/dev.txt pyproject.toml --output-file requirements/docs.txt
	$(COMPILE) --extra all \
		pyproject.toml requirements/oldest.in --output-file requirements/oldest.txt
	$(COMPILE) requirements/fuzz.in --output-file requirements/fuzz.txt
	$(COMPILE) --extra all --extra dask --constraint requirements/dev.txt \
		pyproject.toml requirements/scale.in --output-file requirements/scale.txt
	$(COMPILE) --no-deps requirements/spark.in --output-file requirements/spark.txt
	$(COMPILE) requirements/tools.in --output-file requirements/tools.txt
	@if grep -nE '://|^-|@ ' requirements/*.txt; then echo "error: an address got into requirements/" >&2; exit 1; fi

.PHONY: clean
clean:
	rm -rf .venv .venv-oldest .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist site report.html sbom.json fuzz/found
	find . -path ./.git -prune -o -type d -name __pycache__ -exec rm -rf {} +
