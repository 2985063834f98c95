# Every target makes the environment it needs first: Python 3.11 is all that has to be there. The logic is in deploy/run.py.
PYTHON ?= $(shell command -v python3.11 || command -v python3 || echo python3.11)
RUN := @$(PYTHON) deploy/run.py
JOBS ?= auto
NAME ?=
ARGS ?=
# Every warning fails, a link to nowhere among them; pages are read anew each time, for a warning is not repeated for a page that is kept.
SPHINX := sphinx-build --quiet --fail-on-warning --keep-going --fresh-env

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow ducklake-suite lint format types docs docs-serve ui bench lock clean

help: ## show this list
	@echo "usage: make TARGET"
	@echo
	@sed -nE 's/^([a-z-]+):.*## (.*)/  \1|\2/p' Makefile | awk -F'|' '{ printf "%-15s %s\n", $$1, $$2 }'
	@echo
	@echo "Python 3.11 is all that must be there; the first target run sets up the rest in .venv"

demo: ## the tour: files become assets, rows flow, sensors decide, runs maintain, a process is killed, three readers agree
	$(RUN) python -m deploy.interrupt deploy.demo

test: ## every test but the slow ones (ARGS="tests/lake -x" narrows it)
	$(RUN) python -m pytest -m "not slow" -n $(JOBS) --dist worksteal $(ARGS)

test-slow: ## the slow ones: crashes, concurrency, long histories, the built wheel
	$(RUN) python -m pytest -m slow -n $(JOBS) $(ARGS)

ducklake-suite: ## DuckLake's own SQL tests, from a copy of its repository in DIR=…: all tables at all snapshots, by us and by DuckDB
	@test -n "$(DIR)" || { echo "name a copy of DuckLake's repository: make ducklake-suite DIR=path"; exit 2; }
	$(RUN) python -m tests.ducklake_suite "$(abspath $(DIR))" $(ARGS)

lint: ## formatter, linter, type checker, spelling and the links of the docs, changing nothing
	$(RUN) sh -c 'failed=0; ruff format --check --output-format concise . || failed=1; ruff check . || failed=1; mypy || failed=1; \
		typos || failed=1; python deploy/links.py || failed=1; $(SPHINX) -b dummy docs build/docs-links || failed=1; exit $$failed'

format: ## let the formatter and the linter's safe fixes change files
	$(RUN) sh -c 'ruff format . && ruff check --fix .'

docs: ## the documentation as a site, in build/docs
	$(RUN) sh -c '$(SPHINX) docs build/docs && echo "the site is build/docs/index.html"'

docs-serve: ## the same, served on this machine (ARGS=8001 for another port)
	$(RUN) sh -c '$(SPHINX) docs build/docs && exec python -m http.server --bind 127.0.0.1 --directory build/docs $(or $(ARGS),8000)'

types: ## the type checker alone
	$(RUN) mypy

ui: ## the Dagster web interface on the reference platform, with live data (ARGS=3001 for another port)
	$(RUN) python -m deploy.ui $(ARGS)

bench: ## one benchmark, NAME=lake; without NAME, their list
	$(RUN) python -m tests.benchmarks $(NAME)

lock: ## resolve the newest versions that pyproject.toml allows
	$(RUN) sh deploy/lock.sh

clean: ## remove what git ignores, the environment included
	git clean -fdXq -e '!/.platform/'
