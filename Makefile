# Every target prints what it does. `make demo` and `make test` need only Python >= 3.11 and make.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
# Python keeps the byte code of what is imported, a third of all that is installed: pip need not
# make it, and the tests start hundreds of processes which must not make it each for itself.
unexport PYTHONDONTWRITEBYTECODE

PYTHON ?= python3
PORT ?= 8000
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
ASSET_SOURCES := $(shell find static/src templates -type f 2>/dev/null) package-lock.json static/build.mjs

.PHONY: help install demo dev run clean-demo unit check test chart peers bench soak fuzz audit lint format lock

help:
	@grep -hE '^[a-z-]+:.*##' Makefile | sed -E 's/:.*## /\t/' | expand -t 14

$(BIN)/python:
	@echo "Making $(VENV)"
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Python 3.11 or newer is needed; this is " + sys.version.split()[0] + ". Set PYTHON=/path/to/python3.")'
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "Python can't make a virtual environment here; on Debian: apt-get install python3-venv" >&2; exit 1; }

$(VENV)/.app: requirements/app.txt | $(BIN)/python
	@echo "Installing the locked requirements (requirements/app.txt); this takes about a minute"
	@$(PIP) install --no-compile --require-hashes -r requirements/app.txt
	@touch $@

$(VENV)/.dev: requirements/dev.txt $(VENV)/.app
	@echo "Installing the locked development requirements (requirements/dev.txt)"
	@$(PIP) install --no-compile --require-hashes -r requirements/dev.txt
	@touch $@

$(VENV)/.script: pyproject.toml requirements/build.txt $(VENV)/.app
	@echo "Installing the console script $(BIN)/olmweb"
	@$(PIP) install --no-compile --require-hashes -r requirements/build.txt
	@$(PIP) install --no-compile --no-deps --no-build-isolation --editable .
	@touch $@

static/dist/.built: $(ASSET_SOURCES) deploy/build-static.sh | $(VENV)/.app
	@echo "Building static assets"
	@deploy/build-static.sh $(VENV)
	@touch $@

install: $(VENV)/.app $(VENV)/.script static/dist/.built ## .venv, locked requirements, olmweb, static assets

DEMO_ENV := OLMWEB_DATA_DIR=$(CURDIR)/.local/demo KUBECONFIG=$(CURDIR)/.local/demo/kubeconfig \
	OLMWEB_CLUSTERS=sandbox=sandbox OLMWEB_PUBLIC_READ=true OLMWEB_STATE_POLL=2s OLMWEB_CATALOG_POLL=1m

demo: install ## the product on a sandbox cluster: http://127.0.0.1:8000/ (PORT=8000)
	@mkdir -p .local/demo
	@echo "Starting OLM Web; the address and the accounts follow"
	@exec env $(DEMO_ENV) $(BIN)/python manage.py serve --demo --port $(PORT)

# A change of Python code or of a template restarts the server; one of a template, a style or a script
# also builds the assets anew. Reload the page in the browser.
dev: $(VENV)/.dev static/dist/.built ## the demo with auto-reload: http://127.0.0.1:8000/ (PORT=8000)
	@mkdir -p .local/demo
	@trap 'kill 0' EXIT; \
	$(BIN)/watchfiles --sigint-timeout 10 "npm run --silent build" static/src templates & \
	env OLMWEB_DEBUG=true $(DEMO_ENV) $(BIN)/watchfiles --sigint-timeout 10 \
		"$(BIN)/python manage.py serve --demo --port $(PORT)" olmweb catalogs installs templates

clean-demo: ## forget the demo's data
	rm -rf .local/demo

run: export CONTEXT := $(CONTEXT)
run: export KUBECONFIG := $(KUBECONFIG)
run: install ## on your own cluster: make run [KUBECONFIG=..] [CONTEXT=..] [PORT=8000]
	@mkdir -p .local
	@name=$$(printf '%s' "$${CONTEXT:-cluster}" | tr -c 'A-Za-z0-9.-' '-'); \
	exec env OLMWEB_WRITE_AS="$${OLMWEB_WRITE_AS:-service-account}" \
		OLMWEB_CLUSTERS="$${OLMWEB_CLUSTERS:-$$name=$${CONTEXT:-}}" \
		$(BIN)/python manage.py serve --port $(PORT)

unit: $(VENV)/.dev ## the tests without database, server or process
	@$(BIN)/python -m tests.run --unit

check: lint unit ## what to run before each commit: lint, types, layers, unit tests

test: $(VENV)/.dev static/dist/.built ## every test that this machine can run
	@$(BIN)/python -m tests.run

chart: $(VENV)/.dev ## the Helm chart: lint, render, schemas, a real API server, alert rules, its processes
	@$(BIN)/python -m pytest tests/chart -n 2 --dist loadfile -q

peers: $(BIN)/python ## the real components for the tests: Debian's, and API server, OLM, opm, catalogd, helm
	@echo "PostgreSQL, Redis, Chromium, an image registry, promtool, zsh and fish (Debian's packages):"
	@deploy/install-services.sh
	@echo "kube-apiserver, etcd, opm, OLM, catalogd and helm (built from source, once):"
	@$(BIN)/python -m tests.peers.build

bench: $(VENV)/.dev static/dist/.built ## measure; prints a table, writes .local/bench.json
	@$(BIN)/python -m tests.bench

soak: $(VENV)/.dev static/dist/.built ## load and chaos on real processes; prints a table, writes .local/soak.json
	@$(BIN)/python -m tests.soak

fuzz: $(VENV)/.dev ## feed odd bytes to the reader of catalogs for a minute (FUZZ_SECONDS=60)
	@$(PIP) install --require-hashes -r requirements/fuzz.txt
	@$(BIN)/python -m tests.fuzz.fuzz_reader -max_total_time=$(or $(FUZZ_SECONDS),60)

audit: $(BIN)/python ## known vulnerabilities of the locked Python packages (needs the internet)
	@$(PIP) install --require-hashes -r requirements/audit.txt
	@$(BIN)/pip-audit --strict --disable-pip --require-hashes -r requirements/app.txt -r requirements/dev.txt

lint: $(VENV)/.dev ## ruff, djlint, mypy, import-linter, migrations
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .
	@$(BIN)/djlint --check --lint templates
	@$(BIN)/lint-imports --no-cache
	@$(BIN)/mypy
	@$(BIN)/python manage.py makemigrations --check --dry-run

format: $(VENV)/.dev ## format Python and templates
	@$(BIN)/ruff check --fix-only . ; $(BIN)/ruff format .
	@$(BIN)/djlint --quiet --reformat templates || true

UV := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --upgrade
lock: $(VENV)/.dev ## refresh the lock files (hashes, no registry addresses)
	@$(UV) pyproject.toml -o requirements/app.txt
	@$(UV) --group dev pyproject.toml -c requirements/app.txt -o requirements/dev.txt
	@$(UV) --group build -o requirements/build.txt
	@$(UV) --group fuzz -o requirements/fuzz.txt
	@$(UV) --group audit -c requirements/dev.txt -o requirements/audit.txt
	@$(UV) --group node -o requirements/node.txt
	@$(UV) --group go -o requirements/go.txt
	@npm install --package-lock-only
	@! grep -nE 'https?://' requirements/*.txt package-lock.json | grep -i regist
