"""Measures the Python package against the Rust core and against lmdb and sqlite3."""
