# Everything a person does in this repository. `make help` lists it.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
BAKERY := $(VENV)/bin/wheel-bakery
# More arguments for the command: make wheel ARGS="--set CUDA_VERSION=12.8.0"
ARGS ?=
# What is fuzzed, and how long each of it: make fuzz FUZZ="recipe lock" FUZZ_SECONDS=600
FUZZ ?=
FUZZ_SECONDS ?= 60
# No proof starts after these minutes; a text in the ids of the proofs.
MINUTES ?= 60
ONLY ?=
# Tests run in random order, so that none needs what another left: make test SEED=1 repeats an order.
SEED := $(shell date +%s)
ORDER = -p randomly --randomly-seed=$(SEED)

# With it, every process of `make check` compiles all modules again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup engine wheel test check docs pins fuzz bench peers proof release clean

help: ## Show this list
	@sed -nE 's/^([a-z-]+):.*## (.*)/\1\t\2/p' $(MAKEFILE_LIST) | awk -F '\t' '{ printf "  make %-8s %s\n", $$1, $$2 }'

setup: $(VENV)/.ready ## Make the virtual environment with bakery and its development tools

$(VENV)/.ready: pyproject.toml $(wildcard packages/*/pyproject.toml)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "bakery needs Python 3.11 or newer: make PYTHON=python3.12 …" >&2; exit 2; }
	@test -x $(RUN) || $(PYTHON) -m venv $(VENV) || \
		{ rm -rf $(VENV); echo "no virtual environment can be made: install the package python3-venv" >&2; exit 2; }
	$(RUN) -m pip install -qq --upgrade 'pip>=25.1'
	$(RUN) -m pip install -qq --editable packages/wheel-audit --editable '.[audit,ci]' --editable packages/bakery-iree --group dev
	@touch $@

engine: setup ## Make sure that a Docker engine with buildx runs; install a private one where there is none
	@$(BAKERY) engine up

wheel: setup ## Bake the wheels of the recipes in pyproject.toml into dist/
	@$(BAKERY) wheel --engine-up $(ARGS)

check: setup ## Format, lint, types, drift of generated files, unit and golden tests: a minute
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/lint-imports --no-logo --no-cache
	$(BAKERY) generate --check
# mypy needs one processor, and says what it found below the tests.
	types=$$(mktemp) && trap 'rm -f "$$types"' EXIT && { $(VENV)/bin/mypy > "$$types" & } && \
	$(VENV)/bin/pytest -q -n 2 --dist worksteal $(ORDER) tests/unit tests/golden $(wildcard packages/*/tests/unit) $(wildcard packages/*/tests/golden); \
	tests=$$?; wait $$!; code=$$?; cat "$$types"; exit $$((tests | code))

test: check engine ## All tests, up to real bakes on a real engine
	$(VENV)/bin/pytest -n 2 --dist loadfile --no-loadscope-reorder $(ORDER) tests/engine tests/contract $(wildcard packages/*/tests/contract)

docs: setup ## Build the documentation site into site/, and check its links; needs no network
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --strict --site-dir site

pins: setup ## Refresh the images that short names of bases stand for, from the newest cibuildwheel
	@folder=$$(mktemp -d) && $(RUN) -m pip download --quiet --no-deps --dest "$$folder" cibuildwheel && \
		$(RUN) -m bakery.toolchains.facts.pin_images "$$folder"/*.whl; rm -r "$$folder"

fuzz: setup ## Give every reader of files hostile input for a while: docs/fuzzing.md
	PYTHONPATH=tests $(RUN) -P -m fuzz --seconds $(FUZZ_SECONDS) $(FUZZ)

bench: engine ## Measure: each figure is a ratio within one run
	$(RUN) bench/startup.py
	$(RUN) bench/init.py
	$(RUN) bench/plan.py
	$(RUN) bench/noop.py
	$(RUN) bench/profile_self.py
	$(RUN) bench/native.py
	$(RUN) bench/first_run.py
	$(RUN) bench/peers.py ujson
	$(RUN) bench/peers.py --short --times 1 rapidfuzz
	$(RUN) bench/keep_going.py
	$(RUN) bench/slots.py
	$(RUN) bench/remote_cache.py
	$(RUN) bench/torch_extension.py
	$(RUN) bench/iree.py

peers: engine ## Compare wheels of real projects with those of pip wheel: docs/real-projects.md
	$(VENV)/bin/pytest -n 2 -m 'proof or not proof' tests/engine/test_real_projects.py tests/engine/test_backend_packages.py $(ARGS)

proof: $(if $(LIST),setup,engine) ## Slow proofs, the oldest first, for MINUTES=60; also ONLY=lock, FAILED=1, LIST=1: docs/proofs.md
	@$(RUN) -P tests/proofs.py --minutes $(MINUTES) --only '$(ONLY)' $(if $(FAILED),--failed) $(if $(LIST),--list)

release: check ## Build the three distributions into release/; refuses a tree with stale proofs
	$(RUN) -P tests/proofs.py --fresh
	for folder in packages/wheel-audit . packages/bakery-iree; do $(VENV)/bin/uv build -q --out-dir release "$$folder" || exit; done

clean: ## Remove what was built; the engine, its images and caches stay
	rm -rf dist wheels build site .bakery .mypy_cache .pytest_cache .ruff_cache .hypothesis $(VENV)
