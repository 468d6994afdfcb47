# make run        the environment, the install, and the main job: results into out/
# make test       the environment, the install, and every check that ends in five minutes
# make test-slow  the tests that take longer, and compiled code again, by plain Numba and with its
#                 bounds checked
# make soak       ten minutes of decisions over HTTP, and whether the server's memory stays flat
# make docs       every figure of the documentation again, then the site, in site/
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
INSTALLED := .venv/installed.stamp

.PHONY: run test test-slow bounds docs figures lint types imports unit bench soak peers format clean

# What the report needs is compiled when it is needed; the progress bar names it.
run: $(INSTALLED)
	$(BIN)/rolf reproduce --out out

test: lint types imports unit

test-slow: $(INSTALLED)
	$(BIN)/rolf compile
	$(BIN)/pytest -n 2 -m slow
	$(MAKE) bounds

# All tests that run compiled code of estimators and policies, slow ones included, again: as plain
# Numba compiles it, and with bounds checked, so that reading beyond the end of an array is an
# error. Numba's cache does not tell such code from any other, so it gets a folder of its own.
CHECKED := NUMBA_BOUNDSCHECK=1 ROLF_PLAIN_NUMBA=1 ROLF_CACHE_DIR=$(CURDIR)/.venv/checked-code

bounds: $(INSTALLED)
	$(CHECKED) $(BIN)/rolf compile
	$(CHECKED) $(BIN)/pytest -n 2 -m compiled

docs: figures
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

figures: $(INSTALLED)
	$(BIN)/rolf simulate examples/paper.toml --out out
	$(BIN)/rolf sweep examples/sweep.toml --out out/sweep
	$(BIN)/rolf plot out/sweep --x width --where problem=synthetic --out docs/images/sweep.png
	$(BIN)/python docs/scripts/hero_figure.py out/paper.parquet
	$(BIN)/python docs/scripts/model_figures.py
	$(BIN)/python docs/scripts/result_figures.py
	$(BIN)/python docs/scripts/trust_figure.py
	$(BIN)/python docs/scripts/example_figure.py

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(INSTALLED)
	$(BIN)/mypy

imports: $(INSTALLED)
	$(BIN)/lint-imports --no-cache

unit: $(INSTALLED)
	$(BIN)/rolf compile
	$(BIN)/pytest -n 2

bench: $(INSTALLED)
	$(BIN)/python benchmarks/rounds.py
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/storage.py
	$(BIN)/python benchmarks/service.py

soak: $(INSTALLED)
	$(BIN)/python benchmarks/service.py --soak 600

# Other libraries stay out of our environment: they are measured, never depended on.
peers: .venv-peers/installed.stamp
	.venv-peers/bin/python benchmarks/peers.py

format: $(INSTALLED)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv .venv-peers out site build dist .mypy_cache .ruff_cache .pytest_cache

$(INSTALLED): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $@

.venv-peers/installed.stamp: pyproject.toml
	test -x .venv-peers/bin/python || $(PYTHON) -m venv .venv-peers
	.venv-peers/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[peers]'
	touch $@
