PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin

.PHONY: demo picture test lint bench bench-full pages docs notebooks setup clean
.DEFAULT_GOAL := demo

setup: $(VENV)/.ready

# requirements.lock pins every package, so that an old clone still installs.
$(VENV)/.ready: pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit("grokscope needs Python 3.11 or newer; call make PYTHON=python3.11") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint requirements.lock --editable '.[dev]'
	@touch $@

demo: setup
	$(BIN)/grokscope demo

# The README's first picture, and the curves behind the numbers in its caption.
picture: setup
	store=$$(mktemp -d) && $(BIN)/grokscope demo --store $$store --page $$store/index.html \
	&& $(BIN)/grokscope figure --store $$store --where "seed = 1" --kind comparison --out docs/figures/demo.svg \
	&& $(BIN)/grokscope export --store $$store --where "seed = 1" --curves --parquet results/demo.parquet; rm -r $$store

# A file stays with one worker, which then imports, trains and compiles its fixtures once.
test: lint
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The committed pages of every paper, from the committed tables.
pages: setup
	$(BIN)/grokscope reproduce all --no-train --results results --docs docs --readme README.md

# The documentation as a site, in site/: needs the extra `docs`.
docs: setup
	$(BIN)/python docs/site.py

# The notebooks, run again in place.
notebooks: setup
	GROKSCOPE_STORE=$$(mktemp -d) $(BIN)/jupyter execute --inplace examples/*.ipynb

# Speed, measured: docs/performance.md. The contenders in PyTorch need the extra `torch`.
bench: setup
	$(BIN)/python -m benchmarks quick --readme README.md

bench-full: setup
	$(BIN)/python -m benchmarks full --readme README.md

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache
