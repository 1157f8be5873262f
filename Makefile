# Everything a person or a machine does here, each from a clean clone.
# `make help` lists the targets.

SHELL := /bin/bash
.DEFAULT_GOAL := help
CARGO ?= cargo
# One target directory for the workspace, the benches and the fuzz targets.
TARGET ?= $(CURDIR)/target

.PHONY: help demo test test-deep bench fuzz lint docs clean check-tools check-bench-tools

help: ## Show this list
	@grep -hE '^[a-z][a-z-]*:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1|/' | \
	  awk -F'|' '{printf "  make %-10s %s\n", $$1, $$2}'

check-tools:
	@command -v $(CARGO) >/dev/null || { \
	  echo "cargo is missing: install Rust 1.89 or newer (rustup.rs)"; exit 1; }

demo: check-tools ## Write 300,000 events, kill the writer, recover, verify and scan them
	@$(CARGO) run --quiet --release --locked -p aof2-core --example demo

test: check-tools ## Build and run all tests, with short crash, fault and kill runs (minutes)
	$(CARGO) test --locked --workspace
	$(CARGO) test --locked -p aof2-core --lib --features planted-bugs planted
	$(CARGO) test --locked -p aof2-core --lib --features model-check --release model_check

test-deep: check-tools ## 150,000 crash states, thousands of faults, hundreds of kills (about half an hour)
	AOF2_CRASH_STATES=150000 AOF2_FAULT_RUNS=20000 \
	  $(CARGO) test --locked --release -p aof2-core --lib log::tests -- --nocapture
	AOF2_KILL_ROUNDS=300 $(CARGO) test --locked --release -p aof2-core --test kill_writer
	PROPTEST_CASES=20000 $(CARGO) test --locked --release -p aof2-core --lib format::

BENCH_ARGS ?=
check-bench-tools: check-tools
	@command -v g++ >/dev/null && ls /usr/lib/llvm-*/lib/libclang*.so* /usr/lib/*/libclang*.so* \
	  >/dev/null 2>&1 || [ -n "$$LIBCLANG_PATH" ] || { \
	  echo "the peers need a C++ compiler and libclang: apt-get install g++ libclang-dev"; exit 1; }

bench: check-bench-tools ## Measure against bounds and peers; BENCH_ARGS=--quick for a short run
	CARGO_TARGET_DIR=$(TARGET)/bench $(CARGO) run --locked --release \
	  --manifest-path benches/Cargo.toml -- $(BENCH_ARGS)

FUZZ_SECONDS ?= 60
FUZZ_TARGETS = segment_header segment_footer record watermark stream_identity file_name
fuzz: check-tools ## Fuzz every decoder for FUZZ_SECONDS each (needs a nightly toolchain)
	@$(CARGO) fuzz --version >/dev/null 2>&1 || $(CARGO) install --locked cargo-fuzz
	@for target in $(FUZZ_TARGETS); do \
	  $(CARGO) +nightly fuzz run --target-dir $(TARGET)/fuzz $$target -- \
	    -max_total_time=$(FUZZ_SECONDS) -rss_limit_mb=1024 || exit 1; \
	done

lint: check-tools ## Formatting and lints, warnings denied
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings
	$(CARGO) clippy --locked -p aof2-core --all-targets --features planted-bugs -- -D warnings

docs: check-tools ## Build the API documentation into target/doc
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --workspace --no-deps

clean: ## Remove everything that was built
	rm -rf $(TARGET)
