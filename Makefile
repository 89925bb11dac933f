# Tasks of the project. `make help` lists them, and CI runs no other commands.

PYTHON ?= python3
# Numbers of test workers. Tests often wait for processes, so two workers keep one core busy. More
# workers slow each other down: on two cores, `make test` took 11 minutes with 4 workers and 15 minutes
# with 8. The long tests wait more often, so they get four workers per core.
WORKERS ?= $(shell echo $$(($$(nproc) * 2)))
CRASH_WORKERS ?= $(shell echo $$(($$(nproc) * 4)))
# All long tests together take more than an hour on two cores, so `make crash` runs one share of them
# each day.
SHARES ?= 2
# Folder that `make demo` creates. If it is empty, the demo creates a new folder in the current folder.
DIR ?=

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
# A worker that has no more tests takes tests from another worker. Otherwise one worker would run all
# tests of a slow folder alone.
PYTEST := $(BIN)/python -m pytest --dist worksteal --durations 10 --totals
PACKAGE := build/package
# Manual page that hatch_build.py adds to the wheel. It is deleted after the build, so that no later
# wheel contains an outdated page.
PAGE := build/wfctl.1
EXAMPLES := build/examples

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# Several targets install into the same virtual environment, so they must not run in parallel.
.NOTPARALLEL:

.PHONY: help demo test test-root quick crash soak examples check house generated core without format bench mutants pictures package clean tools test-tools

help: ## list the tasks
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-9s %s\n", $$1, $$2 }' Makefile

demo: $(VENV)/.app tools ## run a small workflow, kill it and recover it
	PATH="$(CURDIR)/$(BIN):$$PATH" wfctl demo $(DIR)

test: $(VENV)/.dev tools test-tools ## run all tests except the long ones
	$(PYTEST) -n $(WORKERS)

test-root: $(VENV)/.dev tools test-tools ## run the tests that need root (mounts, other user accounts)
	@[ "$$(id -u)" = 0 ] || { echo "make: \`make test-root\` must be run by root" >&2; exit 1; }
	$(PYTEST) -n $(WORKERS) -m 'root and not soak'

quick: $(VENV)/.dev ## run the tests that a change can affect, nearest first, for half a minute
	$(BIN)/python -m tests.quick

crash: $(VENV)/.dev tools test-tools ## run today's share of the long tests, or all of them with SHARES=1
	WFCTL_EXAMPLES=all WFCTL_SHARES=$(SHARES) $(PYTEST) -n $(CRASH_WORKERS) -m '(long or property) and not soak' \
	  --timeout 1800

soak: $(VENV)/.dev tools test-tools ## run the generated tests at their full length
	WFCTL_EXAMPLES=all $(PYTEST) -n $(CRASH_WORKERS) -m soak --timeout 3600

examples: $(VENV)/.examples tools ## run the examples with LAMMPS, and the Ising example
	@command -v lmp >/dev/null || { \
	  echo "make: no lmp on the path (Debian: apt install lammps)" >&2; exit 1; }
	rm -rf $(EXAMPLES)
	mkdir -p $(EXAMPLES)
	cp -r examples/bead-spring-rg examples/ising-tc examples/lj-diffusion examples/melt-viscosity \
	  examples/polymer-bo examples/sic-conductivity examples/xy-model \
	  $(EXAMPLES)
	cd $(EXAMPLES)/bead-spring-rg && PATH="$(CURDIR)/$(BIN):$$PATH" && \
	  wfctl init plan.toml --consent trust && wfctl run && wfctl stage verify stage-4
	cd $(EXAMPLES)/ising-tc && PATH="$(CURDIR)/$(BIN):$$PATH" && \
	  wfctl init small.toml --consent trust && wfctl run && wfctl stage verify stage-2
	cd $(EXAMPLES)/lj-diffusion && PATH="$(CURDIR)/$(BIN):$$PATH" && \
	  sed -i 's/from = 0.55, to = 3.40/from = 0.70, to = 3.55/; s/^limit = 0.01/limit = 0.15/' \
	    plan.toml && \
	  wfctl init plan.toml --consent trust && wfctl run && wfctl stage verify figure
	cd $(EXAMPLES)/melt-viscosity && PATH="$(CURDIR)/$(BIN):$$PATH" && \
	  wfctl init small.toml --consent trust && wfctl run && wfctl stage verify compare
	cd $(EXAMPLES)/polymer-bo && PATH="$(CURDIR)/$(BIN):$$PATH" && \
	  wfctl init small.toml --consent trust && wfctl run && wfctl stage verify judge
	cd $(EXAMPLES)/xy-model && PATH="$(CURDIR)/$(BIN):$$PATH" && \
	  wfctl init plan.toml --consent trust && wfctl run && wfctl stage verify cross
	cd $(EXAMPLES)/sic-conductivity && PATH="$(CURDIR)/$(BIN):$$PATH" && \
	  wfctl init small.toml --consent trust && wfctl run && wfctl stage verify judge

check: $(VENV)/.dev ## check formatting, lint, types, layers and wording
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tests.house --phrases

house: $(VENV)/.dev ## print the size of the code, and repeated names
	@$(BIN)/python -m tests.house

# Modules that write generated files. Events and schemas depend on each other, so the schemas are
# written before and after the events.
GENERATED := tests.golden.schemas_on_file tests.golden.events_on_file tests.golden.schemas_on_file \
  tests.golden.fold_on_file tests.reference_pages tests.machines.reference tests.machines.pages \
  tests.cli.help_examples \
  tests.cli.imports tests.history.on_file tests.exports.golden

generated: $(VENV)/.dev ## write the generated files again: schemas, golden files, pages
	@for module in $(GENERATED); do \
	  echo "$$module" && $(BIN)/python -m "$$module" >/dev/null || exit 1; \
	done

format: $(VENV)/.dev ## format the code as `make check` requires
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

core: $(VENV)/.dev ## check and test a copy without extensions
	$(BIN)/python -m tests.extensions.core

without: $(VENV)/.dev ## check and test a copy without one extension: make without NAME=exports
	$(BIN)/python -m tests.extensions.core $(NAME)

bench: $(VENV)/.bench ## compare the speed with other event stores
	$(BIN)/python -m benchmarks
	$(BIN)/python -m benchmarks.postgres

mutants: $(VENV)/.mutants ## test the tests of the rules with a small fault in each rule; takes half an hour
	$(BIN)/python -m tests.mutants

pictures: $(VENV)/.dev tools ## take screenshots of the pages and reports
	$(BIN)/python -m tests.pages.pictures build/pictures --readme

package: $(VENV)/.app tools ## build the wheel, install it with pip and with pipx, run the demo
	rm -rf $(PACKAGE)
	mkdir -p $(dir $(PAGE))
	$(BIN)/wfctl help --man >$(PAGE)
	$(BIN)/python -m pip --disable-pip-version-check --quiet wheel --no-deps -w $(PACKAGE) .
	rm $(PAGE)
	$(BIN)/python -m venv $(PACKAGE)/venv
	$(PACKAGE)/venv/bin/python -m pip --disable-pip-version-check --quiet install $(PACKAGE)/*.whl
	test -s $(PACKAGE)/venv/share/man/man1/wfctl.1
	PIPX_HOME="$(CURDIR)/$(PACKAGE)/pipx" PIPX_BIN_DIR="$(CURDIR)/$(PACKAGE)/bin" \
	  pipx install --python $(PYTHON) $(PACKAGE)/*.whl && $(PACKAGE)/bin/wfctl --version
	cd $(PACKAGE) && PATH="$(CURDIR)/$(PACKAGE)/venv/bin:$$PATH" wfctl demo

clean: ## remove all files that the tasks created
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

tools:
	@for tool in bash flock setsid; do command -v $$tool >/dev/null || { \
	  echo "make: $$tool is missing; jobs need it (Debian: apt install bash util-linux)" >&2; \
	  exit 1; }; done
	@command -v tmux >/dev/null || \
	  echo "make: no tmux, which is optional; jobs run detached by setsid instead" >&2

test-tools:
	@for tool in git tmux gcc ps openssl ssh-keygen slurmctld slurmd munged sshd chromium pdftoppm ip pgbouncer; do \
	  PATH="$$PATH:/usr/sbin" command -v $$tool >/dev/null || \
	  echo "make: $$tool is missing; tests that need it are skipped (Debian: apt install git tmux" \
	    "gcc procps openssl openssh-client slurm-wlm munge openssh-server chromium" \
	    "poppler-utils iproute2 pgbouncer)" >&2; \
	done

$(VENV)/.made:
	@command -v $(PYTHON) >/dev/null || { \
	  echo "make: no $(PYTHON); install Python 3.11 or newer, or name one: make PYTHON=…" >&2; \
	  exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "make: expected Python 3.11 or newer, found $$($(PYTHON) --version 2>&1);" \
	    "name another: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "make: $(PYTHON) has no venv module (Debian: apt install python3-venv)" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.app: $(VENV)/.made pyproject.toml
	$(PIP) install --editable .
	@touch $@

$(VENV)/.examples: $(VENV)/.app
	$(PIP) install --editable '.[examples]'
	@touch $@

$(VENV)/.dev: $(VENV)/.app
	$(PIP) install --editable '.[dev]'
	@touch $@

$(VENV)/.mutants: $(VENV)/.dev
	$(PIP) install --editable '.[mutants]'
	@touch $@

$(VENV)/.bench: $(VENV)/.dev
	$(PIP) install --editable '.[bench]'
	@touch $@
