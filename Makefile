# Each target makes its own .venv, from nothing but python3 and pip.
VENV := .venv
BIN := $(VENV)/bin
USER_STAMP := $(VENV)/.installed
DEV_STAMP := $(VENV)/.installed-dev
BENCH_STAMP := $(VENV)/.installed-bench
DEMO_RUN ?= demo-run
DEMO_OPTIONS ?=
PYTEST_OPTIONS ?=

.PHONY: demo test check bench soak bench-report bench-data bench-quality bench-ablation clean

demo: $(USER_STAMP)  ## cluster 1,797 handwritten digits and compare with k-means
	$(BIN)/gatcluster demo -o $(DEMO_RUN) --overwrite $(DEMO_OPTIONS)

# Two processes of one thread each: the networks of the tests are too small for two threads to share.
test: $(DEV_STAMP)  ## all tests
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile $(PYTEST_OPTIONS)

check: $(DEV_STAMP)  ## style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(DEV_STAMP)  ## measurements, printed as ratios
	$(BIN)/python benchmarks/memory.py
	$(BIN)/python benchmarks/speed.py
	$(BIN)/python benchmarks/presets.py

bench-report: $(DEV_STAMP)  ## size, speed and memory of the report of 60,000 images, in a real Chromium
	$(BIN)/python benchmarks/report.py

soak: $(DEV_STAMP)  ## kills runs for more than an hour, and compares what comes of resuming them
	OMP_NUM_THREADS=1 GATCLUSTER_MUTATIONS=20000 $(BIN)/python -m pytest tests/runs/test_untrusted.py -k mutated
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/soak.py

bench-data: $(DEV_STAMP)  ## what reading costs, on a folder of photos: make bench-data DATA=DIR
	$(BIN)/python benchmarks/data.py --data $(DATA)

# Both go on where they were interrupted, and write their tables to docs/results.md.
BENCH_OPTIONS ?=
BENCH_CHOICES = $(if $(DATA),--data "$(DATA)") $(if $(SETS),--sets $(SETS)) $(if $(SEEDS),--seeds $(SEEDS)) $(BENCH_OPTIONS)

bench-quality: $(BENCH_STAMP)  ## fast, paper and their peers: make bench-quality DATA=DIR [SETS="digits usps"] [SEEDS="0 1"]
	$(BIN)/python benchmarks/quality.py $(BENCH_CHOICES)

bench-ablation: $(BENCH_STAMP)  ## what each ingredient brings: make bench-ablation DATA=DIR [SETS=...] [SEEDS=...]
	$(BIN)/python benchmarks/ablation.py $(BENCH_CHOICES)

clean:
	rm -rf $(VENV) demo-run .mypy_cache .pytest_cache .ruff_cache .hypothesis

# Debian splits ensurepip off: where it is missing, the system's pip installs pip.
$(BIN)/python:
	python3 -m venv $(VENV) || \
	  (rm -rf $(VENV) && python3 -m venv --without-pip $(VENV) && python3 -m pip --python $(BIN)/python install -q pip)

$(USER_STAMP): pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install -q -e .
	@touch $@

$(DEV_STAMP): pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install -q -e ".[dev]"
	@touch $@ $(USER_STAMP)

$(BENCH_STAMP): pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install -q -e ".[bench]"
	@touch $@ $(USER_STAMP)
