# Every target creates what it needs; `make demo` and `make test` work in a fresh clone.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# The interpreters that tests start would each compile all that they import.
unexport PYTHONDONTWRITEBYTECODE

GENERATED := csrc/acquisition.c csrc/records.c csrc/linalg.c csrc/sampler.c csrc/certificates.c csrc/keys.c csrc/decisions.c csrc/session.c
SOURCES := pyproject.toml setup.py $(wildcard dpfast/kernels/*.pxd) \
           $(filter-out $(GENERATED),$(wildcard csrc/*.pyx csrc/*.c csrc/*.h csrc/*/*.[ch] csrc/*/*.pxi))
BUILD_REQUIRES := import tomllib; \
    print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"])

.PHONY: help demo test test-fast test-all bench evidence bench-quick bench-compare lint hooks format mutants coverage operators proofs docs docs-check wheels clean

help:
	@echo "make demo      private wage regression on census microdata"
	@echo "make test      the tests, without the slow ones"
	@echo "make test-fast the tests of milliseconds, in a minute and a half"
	@echo "make test-all  the tests, with the slow ones"
	@echo "make bench     every benchmark suite (SUITE=kernels for one, ARGS=--quick)"
	@echo "make bench-compare BASE=main   this tree against another commit, in alternation"
	@echo "make lint      ruff, mypy and the words of docs/house-words.txt"
	@echo "make hooks     have git run the linters before each commit"
	@echo "make mutants   plant privacy bugs and check that the tests notice"
	@echo "make operators  generic mistakes in files of privacy and curator, by cosmic-ray"
	@echo "make coverage  branches of privacy and curator that no test takes, and why"
	@echo "make proofs    check the algebra of the claims with Coq (installed by apt-get, as root)"
	@echo "make docs      the documentation, in docs/_build/html"
	@echo "make docs-check   open every page of it in a browser (needs Chromium)"
	@echo "make wheels    sdist and manylinux wheels (PYTHONS='python3.11 python3.12 ...')"
	@echo "make evidence  measure every stored result again, before a release: hours (ARGS=--quick: minutes)"
	@echo "make reproducible   the same wheel twice, byte by byte"
	@echo "make clean     remove what was built"

# The environment; the stamps say which groups are installed.  Only the first compiles.
$(VENV)/.built: $(SOURCES)
	$(PYTHON) -c 'import sys; sys.exit("dpfast needs Python 3.11 or newer" if sys.version_info < (3, 11) else 0)'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet 'pip>=25.1' $$($(PYTHON) -c '$(BUILD_REQUIRES)')
	$(BIN)/python -m pip install --quiet --no-build-isolation --editable . --group test
	@touch $@

$(VENV)/.bench: $(VENV)/.built
	$(BIN)/python -m pip install --quiet --group bench
	@touch $@

$(VENV)/.lint: $(VENV)/.built
	$(BIN)/python -m pip install --quiet --group lint
	@touch $@

demo: $(VENV)/.built
	$(BIN)/python -m dpfast demo

# Two processes; tests that fork, start threads or race come last, alone in either (tests/conftest.py).
PROCESSES ?= 2
IN_PARALLEL := -n $(PROCESSES) --dist loadscope --no-loadscope-reorder

test: $(VENV)/.built
	$(BIN)/python -m pytest -m "not slow" $(IN_PARALLEL)

test-fast: $(VENV)/.built
	$(BIN)/python -m pytest -q -m "not slow" --fast $(IN_PARALLEL)

test-all: $(VENV)/.built
	$(BIN)/python -m pytest $(IN_PARALLEL)

SUITE ?= all
ARGS ?=
bench: $(VENV)/.bench
	$(BIN)/python -m bench $(SUITE) $(ARGS)

evidence: $(VENV)/.bench
	$(BIN)/python -m bench evidence $(ARGS)

bench-quick: ARGS := --quick
bench-quick: bench

# Texts in which a word of docs/house-words.txt names its standard term; the words of old reports stay.
WORDS := README.md CONTRIBUTING.md SECURITY.md $(wildcard docs/*.md docs/tutorials/*.md) dpfast \
         --skip '*/wording.py,*/PROOFS*.md,*.so,*.pyc'
lint: $(VENV)/.lint
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m mypy
	$(BIN)/codespell --dictionary docs/house-words.txt $(WORDS)

hooks: $(VENV)/.lint
	$(BIN)/python -m pre_commit install

BASE ?= main
bench-compare: $(VENV)/.bench
	$(BIN)/python -m bench.compare $(BASE) $(ARGS)
	$(BIN)/python -m bench.instructions

format: $(VENV)/.lint
	$(BIN)/python -m ruff check --fix .
	$(BIN)/python -m ruff format .

mutants: $(VENV)/.built
	$(BIN)/python -m tests.privacy.mutants

# Packages whose branches are looked at are dpfast/privacy and dpfast/curator (pyproject.toml).
COVERING ?= tests/privacy tests/curator tests/scaling tests/tables tests/nonconvex tests/bayesopt \
            tests/effects tests/release
$(VENV)/.coverage: $(VENV)/.built
	$(BIN)/python -m pip install --quiet --group coverage
	@touch $@

coverage: $(VENV)/.coverage
	mkdir -p build/coverage
	$(BIN)/python -m coverage run -m pytest -q -m "not slow" $(COVERING)
	$(BIN)/python -m coverage json -q
	$(BIN)/python -m tests.privacy.branches --strict

$(VENV)/.operators: $(VENV)/.built
	$(BIN)/python -m pip install --quiet --group operators
	@touch $@

operators: $(VENV)/.operators
	$(BIN)/python -m tests.privacy.operators $(ARGS)

proofs: $(VENV)/.built
	$(BIN)/python -m tests.proofs.check --install

$(VENV)/.docs: $(VENV)/.built
	$(BIN)/python -m pip install --quiet --group docs
	@touch $@

docs: $(VENV)/.docs
	$(BIN)/python docs/gather.py
	$(BIN)/python -m sphinx -q -W --keep-going -b html docs docs/_build/html

docs-check: docs
	$(BIN)/python -m docs.check

PYTHONS ?= $(PYTHON)
wheels:
	.ci/wheels $(PYTHONS)

reproducible:
	.ci/reproducible $(PYTHON)

clean:
	rm -rf docs/_build docs/api docs/claims docs/gallery docs/pictures
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .hypothesis .mypy_cache .ruff_cache .benchmarks
	rm -f $(GENERATED) dpfast/kernels/*.so demo-*.png
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
