# Everything a person or a machine does here, each from a clean clone.
# `make help` lists the targets.
#
# Rust, Python 3.11 or newer and make must be there, and Java 17 or newer for
# Spark. Everything else is installed into .venv on first use; a stamp there
# says what is up to date. Nothing outside this directory changes.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# Cargo uses all cores by itself, and tests are easier to read one after another.
.NOTPARALLEL:

CARGO ?= cargo
# One target directory for the workspace, the wheel, the benches and the fuzz targets.
TARGET := $(or $(CARGO_TARGET_DIR),$(CURDIR)/target)
export CARGO_TARGET_DIR := $(TARGET)

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check --no-input
# One interpreter for every build of the bindings: another one would compile them again.
export PYO3_PYTHON := $(CURDIR)/$(BIN)/python
# The environment of whoever calls make must not leak into .venv.
unexport PYTHONPATH PYTHONHOME VIRTUAL_ENV CONDA_PREFIX

# Those of the Python module.
RUST_SOURCES := Cargo.toml Cargo.lock $(shell find crates/aof2-core crates/aof2-py -name '*.rs' -path '*/src/*' -o -name Cargo.toml)
PYTHON_SOURCES := $(shell find python -name '*.py' -o -name '*.pyi' -o -name py.typed 2>/dev/null)

.PHONY: help demo test test-rust test-python test-deep bench bench-rust bench-python \
  bench-spark bench-manifest bench-catalog bench-artifact bench-archive test-s3 fuzz lint lint-rust lint-benches lint-python docs docs-rust docs-site wheel clean \
  check-rust check-lint-tools check-java check-bench-tools check-fuzz-tools

help: ## Show this list
	@grep -hE '^[a-z][a-z0-9-]*:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## /\1|/' | \
	  awk -F'|' '{printf "  make %-15s %s\n", $$1, $$2}'

# ---- what must be there ------------------------------------------------------

check-rust:
	@command -v $(CARGO) >/dev/null || { \
	  echo "cargo is missing: install Rust 1.95 or newer (https://rustup.rs)"; exit 1; }
	@$(CARGO) --version | awk '{split($$2, v, "."); if (v[1] == 1 && v[2] < 95) { \
	  print "Rust 1.95 or newer is needed, this is " $$2 ": rustup update stable"; exit 1}}'

check-lint-tools: check-rust
	@$(CARGO) fmt --version >/dev/null 2>&1 || { \
	  echo "rustfmt is missing: rustup component add rustfmt"; exit 1; }
	@$(CARGO) clippy --version >/dev/null 2>&1 || { \
	  echo "clippy is missing: rustup component add clippy"; exit 1; }

# Spark starts the java of JAVA_HOME, or else the first one on the path.
JAVA = $${JAVA_HOME:+$$JAVA_HOME/bin/}java
JAVA_MAJOR = "$(JAVA)" -version 2>&1 | sed -nE 's/.*version "([0-9]+).*/\1/p'
check-java:
	@major="$$($(JAVA_MAJOR))"; [ "$${major:-0}" -ge 17 ] || { \
	  echo "Spark needs Java 17 or newer, found: $${major:-none}." \
	    "Install it (apt-get install openjdk-17-jre-headless) or set JAVA_HOME"; exit 1; }

# The first of these that is Python 3.11 or newer; PYTHON=… chooses another one.
PYTHON ?= python3.13 python3.12 python3.11 python3 python
$(VENV)/.created:
	@for python in $(PYTHON); do \
	  "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 || continue; \
	  "$$python" -c 'import ensurepip, venv' 2>/dev/null || { \
	    echo "$$python has no venv module: apt-get install python3-venv"; exit 1; }; \
	  echo "creating $(VENV) with $$("$$python" --version)"; \
	  "$$python" -m venv $(VENV) && $(PIP) install --upgrade 'pip>=25.1' && \
	    touch $@ && exit 0; exit 1; \
	done; echo "Python 3.11 or newer is missing: install it, or say PYTHON=/path/to/python3"; exit 1

# Tools by dependency group of pyproject.toml, each installed when first needed.
$(VENV)/.group-%: pyproject.toml $(VENV)/.created
	$(PIP) install --group $*
	@touch $@

# The package itself, editable: only a change of Rust sources needs a build.
$(VENV)/.package: $(RUST_SOURCES) pyproject.toml $(VENV)/.group-build | check-rust
	VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/maturin develop --release --locked --quiet
	@touch $@

$(VENV)/.wheel: $(RUST_SOURCES) $(PYTHON_SOURCES) pyproject.toml README.md LICENSE $(VENV)/.group-build | check-rust
	rm -f dist/aof2-*.whl
	$(BIN)/maturin build --release --locked --quiet --interpreter $(PYO3_PYTHON) --out dist
	@touch $@

wheel: $(VENV)/.wheel ## Build the Python wheel into dist/
	@ls dist/aof2-*.whl

# ---- run it ------------------------------------------------------------------

DEMO_ARGS ?=
# Without Java the demo is the same, less its last step; the demo says so.
demo: $(VENV)/.package $(VENV)/.group-demo ## Write events, kill the writer, recover, repair, compress, fork, archive, lose the disk, query with Spark (a minute)
	@major="$$($(JAVA_MAJOR))"; if [ "$${major:-0}" -ge 17 ]; \
	  then $(MAKE) --no-print-directory $(VENV)/.group-spark; \
	  else echo "Java 17 or newer is missing, so the demo leaves out Spark"; fi
	@$(BIN)/python -m aof2_dev.demo $(DEMO_ARGS)

# ---- test it -----------------------------------------------------------------

test: test-rust test-python ## Build and run all tests, with short crash, fault and kill runs (minutes)

test-rust: check-rust $(VENV)/.created ## The Rust tests, planted bugs and loom models
	# Without the Python module: with it comes the S3 client, which is most of the crates.
	$(CARGO) test --locked -p aof2-core -p aof2-bench
	$(CARGO) test --locked -p aof2-core --lib --features planted-bugs planted
	$(CARGO) test --locked -p aof2-core --lib --features model-check --release model_check

PYTEST_ARGS ?=
test-python: check-java $(VENV)/.package $(VENV)/.wheel $(VENV)/.group-test $(VENV)/.group-tiers $(VENV)/.group-spark ## The Python, CLI, example, wheel, cold tier and Spark tests
	AOF2_WHEEL="$$(ls $(CURDIR)/dist/aof2-*.whl)" \
	  $(BIN)/python -m pytest tests/python tests/cli tests/examples tests/packaging $(PYTEST_ARGS)
	$(BIN)/python -m pytest tests/tiers --ignore=tests/tiers/test_object_store.py $(PYTEST_ARGS)
	# Apart: a JVM and workers that are forked from a process with nothing else in it.
	$(BIN)/python -m pytest tests/spark $(PYTEST_ARGS)

# Apart: every operation under every fault takes minutes.
test-s3: check-rust $(VENV)/.package $(VENV)/.group-tiers ## The object store's client and the cold tier against a real S3 server behind a faulty proxy
	$(CARGO) test --locked -p aof2-core --features s3 --lib object::s3
	$(CARGO) build --locked -p aof2-core --features s3 --example object_store_cli
	AOF2_OBJECT_STORE_CLI=$(TARGET)/debug/examples/object_store_cli \
	  $(BIN)/python -m pytest tests/tiers $(PYTEST_ARGS)

test-deep: check-rust ## 150,000 crash states, thousands of faults, hundreds of kills (about half an hour)
	AOF2_CRASH_STATES=150000 AOF2_FAULT_RUNS=20000 \
	  $(CARGO) test --locked --release -p aof2-core --lib write::tests -- --nocapture
	AOF2_CRASH_STATES=100000 AOF2_FAULT_RUNS=10000 \
	  $(CARGO) test --locked --release -p aof2-core --lib manifest::tests -- --nocapture
	AOF2_ARCHIVE_HISTORIES=20000 AOF2_SCRUB_HISTORIES=10000 AOF2_WRITER_HISTORIES=10000 \
	AOF2_MEANWHILE_HISTORIES=5000 \
	  $(CARGO) test --locked --release -p aof2-core --lib tier::tests
	AOF2_CATALOG_CRASHES=5000 $(CARGO) test --locked --release -p aof2-core --lib catalog::tests
	AOF2_FORK_HISTORIES=100000 $(CARGO) test --locked --release -p aof2-core --lib fork::tests
	AOF2_KILL_ROUNDS=300 $(CARGO) test --locked --release -p aof2-core \
	  --test kill_writer --test manifest_processes
	PROPTEST_CASES=20000 $(CARGO) test --locked --release -p aof2-core --lib format::

FUZZ_SECONDS ?= 60
FUZZ_TARGETS = segment_header segment_footer record watermark stream_identity lineage file_name \
  manifest_chunk manifest_record manifest_snapshot artifact artifact_name writer_claim \
  operation
# Where cargo-fuzz is if it was not there before.
FUZZ_PATH = PATH="$(TARGET)/tools/bin:$$PATH"
check-fuzz-tools: check-rust
	@command -v g++ >/dev/null || command -v clang++ >/dev/null || { \
	  echo "libFuzzer is C++ and needs a compiler for it: apt-get install g++"; exit 1; }
	@$(FUZZ_PATH) $(CARGO) fuzz --version >/dev/null 2>&1 || \
	  $(CARGO) install --locked --root $(TARGET)/tools cargo-fuzz

# Sanitizers and coverage are options that only a nightly compiler admits to. The stable one
# has them, too, and takes them when it is told to stand in for its own bootstrap. New inputs
# are kept in the target directory; fuzz/corpus has the seeds.
fuzz: check-fuzz-tools ## Fuzz every decoder for FUZZ_SECONDS each (with the nightly toolchain if there is one)
	@if $(CARGO) +nightly --version >/dev/null 2>&1; then toolchain=+nightly; \
	  else echo "there is no nightly toolchain: fuzzing with the stable one and RUSTC_BOOTSTRAP=1"; \
	    export RUSTC_BOOTSTRAP=1; fi; \
	for target in $(FUZZ_TARGETS); do \
	  found=$(TARGET)/fuzz/corpus/$$target; mkdir -p $$found; \
	  $(FUZZ_PATH) $(CARGO) $$toolchain fuzz run --target-dir $(TARGET)/fuzz $$target $$found fuzz/corpus/$$target -- \
	    -max_total_time=$(FUZZ_SECONDS) -rss_limit_mb=1024 || exit 1; \
	done

# ---- measure it --------------------------------------------------------------

BENCH_ARGS ?=
bench: bench-rust bench-manifest bench-catalog bench-artifact bench-archive bench-python bench-spark ## All measurements; BENCH_ARGS=--quick for a short run

# RocksDB's bindings are made with libclang, which comes as a wheel without the headers of a
# compiler; those of gcc do.
BINDGEN = LIBCLANG_PATH="$${LIBCLANG_PATH:-$$(echo $(CURDIR)/$(VENV)/lib/python3*/site-packages/clang/native)}" \
  BINDGEN_EXTRA_CLANG_ARGS="-I$$($${CC:-cc} -print-file-name=include)"
check-bench-tools: check-rust
	@command -v g++ >/dev/null || { \
	  echo "RocksDB, one of the peers, needs a C++ compiler: apt-get install g++"; exit 1; }

bench-rust: check-bench-tools $(VENV)/.group-bindgen ## The log against its bounds and four other engines
	$(BINDGEN) CARGO_TARGET_DIR=$(TARGET)/bench $(CARGO) bench --locked \
	  --manifest-path benches/Cargo.toml -- $(BENCH_ARGS)

bench-python: $(VENV)/.package $(VENV)/.group-bench ## The Python package against the Rust core, lmdb, sqlite3 and confluent-kafka
	$(CARGO) build --locked --release -p aof2-core --example python_bound
	PYTHONPATH=benches/python $(BIN)/python -m bench_python \
	  --rust-binary $(TARGET)/release/examples/python_bound $(BENCH_ARGS)

# A folder that Python runs: benches/spark/__main__.py.
bench-spark: check-java $(VENV)/.package $(VENV)/.group-bench $(VENV)/.group-spark ## The Spark connector against Parquet
	$(BIN)/python benches/spark $(BENCH_ARGS)

bench-artifact: check-rust ## Compressed segments: compression, single records, coming back, against libzstd alone
	$(CARGO) run --locked --release -p aof2-core --example artifact_bench -- $(BENCH_ARGS)

bench-archive: $(VENV)/.package $(VENV)/.group-bench ## The cold tier against s5cmd, and what archiving costs appends
	$(BIN)/python benches/archive $(BENCH_ARGS)

bench-catalog: check-rust ## Forks, snapshots and the catalog, against the goals of their design
	$(CARGO) run --locked --release -p aof2-core --example catalog_bench -- $(BENCH_ARGS)

bench-manifest: check-rust ## The manifest: appends, commits, replay, snapshots
	$(CARGO) run --locked --release -p aof2-core --example manifest_bench -- $(BENCH_ARGS)

# ---- keep it tidy ------------------------------------------------------------

lint: lint-rust lint-benches lint-python ## Formatting, lints and types, warnings denied

lint-rust: check-lint-tools $(VENV)/.created
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings
	$(CARGO) clippy --locked -p aof2-core --all-targets --features planted-bugs -- -D warnings

# The workspaces of their own, with lock files of their own. libFuzzer and RocksDB are C++,
# which is not compiled here: the features that say so are off, and the directory of a
# compiled RocksDB that is not there only matters to a linker.
lint-benches: check-lint-tools $(VENV)/.group-bindgen ## The benches and the fuzz targets compile, with the lock files as they are
	$(CARGO) fmt --check --manifest-path fuzz/Cargo.toml
	$(CARGO) clippy --locked --no-default-features --manifest-path fuzz/Cargo.toml -- -D warnings
	$(CARGO) fmt --check --manifest-path benches/Cargo.toml
	$(BINDGEN) ROCKSDB_LIB_DIR=/nonexistent \
	  $(CARGO) clippy --locked --all-targets --manifest-path benches/Cargo.toml -- -D warnings

# stubtest compares the stubs with the built module, so both are needed.
lint-python: $(VENV)/.package $(VENV)/.group-lint $(VENV)/.group-spark
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict
	$(BIN)/python -m mypy.stubtest aof2._aof2

docs: docs-rust docs-site ## Build the pages into target/site and the Rust API into target/doc

docs-rust: check-rust $(VENV)/.created
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --workspace --no-deps

docs-site: $(VENV)/.package $(VENV)/.group-docs
	$(BIN)/sphinx-build --fail-on-warning --keep-going --quiet --builder html \
	  --doctree-dir $(TARGET)/site-doctrees docs $(TARGET)/site
	@echo "pages: $(TARGET)/site/index.html"

clean: ## Remove everything that was built or installed
	rm -rf target $(VENV) dist python/aof2/*.so .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find python tests examples benches docs -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
