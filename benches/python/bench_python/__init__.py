"""Measures the Python package against the Rust core and against lmdb, sqlite3 and confluent-kafka."""
