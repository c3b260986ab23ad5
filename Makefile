# A clone needs Python 3.11 or later with pip and venv, and Debian's apt-get for the programs Python does not bring.
# Everything is made inside this folder: .venv (Python), .tools (Debian programs), .triton (the real server).

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-builtin-rules --no-print-directory
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# The first Python that is new enough; PYTHON=… names another.
PYTHON ?= $(firstword $(foreach p,python3 python3.13 python3.12 python3.11,\
	$(shell $(p) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $(p))))
BIN := .venv/bin
DEMO_EXTRAS := demo
EXTRAS := test,dev,demo,bench,plot,shell,grpc,gpu,serve,notify,lint,postgresql,mcp,dashboards,docs,dns,kubernetes
# Debian packages whose programs tests start; another program is one more word.
DEBIAN_PACKAGES := prometheus prometheus-alertmanager victoria-metrics
# Schemas of Kubernetes' own kinds: read out of the wheel, as it holds seventeen thousand files.
SCHEMAS_VERSION := 1.37.0
SCHEMAS := .tools/kubernetes_validate-$(SCHEMAS_VERSION)-py3-none-any.whl
UNPACKED := .tools/has-$(subst $() ,-,$(DEBIAN_PACKAGES))
PYTEST := $(BIN)/pytest -q
# A link or a heading that is not there is an error. The variable keeps the theme from announcing its successor.
MKDOCS := env NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
LIVE = $$(grep -rlE 'pytest\.mark\.live' --include='test_*.py' tests)
# Of bench-prediction: minutes, after which the next run goes on, and servers at once, each of which wants two processors.
BUDGET ?= 120
PARALLEL ?= 1

export DIAG_TRITON_ENV ?= $(CURDIR)/.triton
# What was compiled once stays, whatever the caller's shell says: many processes are started from the same files.
export PYTHONDONTWRITEBYTECODE :=
export PATH := $(CURDIR)/.tools/usr/bin:$(PATH)

# What loads every dependency: the command, the service, its files and its exports.
LOWEST ?= tests/cli/test_main.py tests/service/http/test_metrics.py tests/service/http/test_api.py tests/service/test_own_telemetry.py tests/sinks

.PHONY: help venv tools browser triton demo demo-engine test unit lowest attack check bench bench-prediction stack-test soak accuracy generate docs dist format clean new-check quick
.PHONY: check-format check-lint check-types check-layers check-generated check-rules check-docs

help: ## list what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: .venv/installed-demo ## diagnose a slow, real Triton and repair it, in two minutes
	@$(BIN)/diag demo

demo-engine: venv ## diagnose a real NVIDIA Dynamo whose engine is imitated: free slots, few slots, a small cache
	@.ci/quiet 'making .dynamo' .ci/dynamo-environment .dynamo
	@PATH="$(CURDIR)/$(BIN):$(PATH)" $(BIN)/python -m tests.soak.engine .dynamo

test: unit triton ## run all tests: the quick ones, then those with real servers
	@echo '--- tests with real servers'
	@$(PYTEST) -n 3 --dist loadfile -m 'live and not alone and not attack' $(LIVE)
	@echo '--- tests that time real servers'
	@$(PYTEST) -m 'live and alone and not attack' $(LIVE)

unit: venv tools browser ## run the tests that need no server
	@echo '--- tests without servers'
	@$(PYTEST) -n 2 --dist loadfile -m 'not live and not attack' --ignore=tests/bench

quick: venv ## run the tests nearest to what changed since main, in about a minute
	@$(BIN)/python -m tests.repository.affected --run

lowest: venv ## run the tests of the command and the service with the oldest dependencies that are allowed
	@.ci/lowest $(LOWEST)

attack: venv ## attack the command and a running service as an expert would, with ceilings of time and memory
	@$(PYTEST) tests/attack

check: check-format check-lint check-types check-layers check-generated check-rules check-docs ## check style, types, layers, generated files, documentation

bench: venv ## run the benchmarks, which compare times within one run
	@$(PYTEST) tests/bench

bench-prediction: venv triton ## measure configurations on a real Triton, for as long as BUDGET minutes; predict each of them
	@$(BIN)/python -m tests.prediction run --budget $(BUDGET) --parallel $(PARALLEL)
	@$(BIN)/python -m tests.prediction score .bench-prediction

stack-test: venv tools triton ## run Triton, Prometheus, Alertmanager and the service, with a fault and its patch
	@$(PYTEST) tests/stack

soak: venv tools triton ## test for two hours what takes long: kills, outages, load, what observing costs, servers that come and go
	@$(BIN)/python -m tests.soak.killing --times 100
	@$(BIN)/python -m tests.soak.outages
	@$(BIN)/python -m tests.soak.load --minutes 10
	@$(BIN)/python -m tests.soak.days --days 30
	@$(BIN)/python -m tests.soak.observer
	@$(BIN)/python -m tests.soak.deployments --hours 1

accuracy: venv ## replay the recorded incidents, whole and without some sources, and print what was found
	@$(BIN)/python -m tests.captures.accuracy
	@$(BIN)/python -m tests.captures.drops

benchmark: venv ## diagnose the incidents that were drawn at random, and print how often it was right
	@$(BIN)/python -m tests.benchmark score fixtures/benchmark

generate: venv ## write rules/, dashboards/, plain manifests and reference pages from the code and the chart
	@$(BIN)/diag gen --output rules
	@$(BIN)/python -m dashboards
	@$(BIN)/python -m docs
	@.ci/quiet '--- shown output' $(BIN)/python -m docs.shown
	@.ci/quiet '--- plain manifests' $(BIN)/python -m deploy

new-check: venv ## write all that a new check needs: NAME=my-check, and LAYER=gpu where it is not serving
	@$(BIN)/python -m tests.checks.new_check "$(NAME)" --layer "$(or $(LAYER),serving)"

dist: venv ## build what a release consists of, in dist/: sdist, wheel, bill of materials, checksums
	@.ci/quiet 'building dist' .ci/dist

docs: venv ## build the documentation as a site, in build/site
	@.ci/quiet 'building build/site' $(MKDOCS)

format: venv ## format the code and mend what can be mended
	@$(BIN)/ruff check --fix --quiet .
	@$(BIN)/ruff format .

clean: ## remove what was made
	rm -rf .venv .tools .triton .dynamo .demo build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .benchmarks .import_linter_cache

check-format: venv
	@echo '--- format'
	@$(BIN)/ruff format --check .

check-lint: venv
	@echo '--- lint'
	@$(BIN)/ruff check .

check-types: venv
	@echo '--- types'
	@$(BIN)/mypy --strict

check-layers: venv
	@.ci/quiet '--- layers' $(BIN)/lint-imports

check-generated: venv
	@echo '--- generated files'
	@$(BIN)/diag gen --check --output rules
	@$(BIN)/python -m dashboards --check
	@$(BIN)/python -m docs --check
	@.ci/quiet '--- plain manifests' $(BIN)/python -m deploy --check

check-rules: tools
	@.ci/quiet '--- rules' promtool check rules rules/recording/*.yaml rules/alerts/*.yaml
	@.ci/quiet '--- configuration of Alertmanager' amtool check-config rules/alertmanager/alertmanager.yaml rules/alertmanager/receivers.yaml

check-docs: venv
	@.ci/quiet '--- documentation' $(MKDOCS) --site-dir build/checked-site

venv: .venv/installed ## make .venv with the product and its tools
tools: $(UNPACKED) $(SCHEMAS) ## fetch what tests need besides Python packages: Debian programs, schemas
browser: ## find a Chromium for the tests of pages, or install Debian's as root
	@.ci/chromium
triton: venv ## make the environment of the real server
	@$(BIN)/python .ci/triton-environment

# What the demonstration needs; an environment with everything has it.
.venv/installed-demo: pyproject.toml | $(BIN)/python
	@[ .venv/installed -nt pyproject.toml ] || .ci/quiet \
		'installing what diag demo needs into .venv: 175 MB on disk, a minute on a free machine' \
		$(BIN)/python -m pip install --disable-pip-version-check --no-input -e '.[$(DEMO_EXTRAS)]'
	@touch $@

.venv/installed: pyproject.toml | $(BIN)/python
	@.ci/quiet 'installing Python packages into .venv: 1.3 GB on disk, several minutes' \
		$(BIN)/python -m pip install --disable-pip-version-check --no-input -e '.[$(EXTRAS)]'
	@touch $@

$(BIN)/python:
	@[ -n "$(PYTHON)" ] || { echo 'no Python 3.11 or later on PATH; name one: make PYTHON=/path/to/python3' >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo '$(PYTHON) is older than Python 3.11; name another: make PYTHON=/path/to/python3' >&2; exit 1; }
	@.ci/quiet 'making .venv' $(PYTHON) -m venv .venv

$(UNPACKED): .ci/debian-programs
	@.ci/quiet 'unpacking into .tools: $(DEBIAN_PACKAGES)' .ci/debian-programs .tools $(DEBIAN_PACKAGES)
	@touch $@

$(SCHEMAS): .venv/installed
	@.ci/quiet 'fetching the schemas of Kubernetes' $(BIN)/python -m pip download --disable-pip-version-check --no-input \
		--no-deps --only-binary=:all: --dest .tools kubernetes-validate==$(SCHEMAS_VERSION)
	@touch $@
