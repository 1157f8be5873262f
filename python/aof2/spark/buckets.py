"""Logs in an object store, by their addresses: ``s3://bucket/prefix/name``.

An address is all that travels to executors. Each finds credentials and endpoint itself,
in its environment and the places where the AWS tools look.
"""

from __future__ import annotations

import glob

import aof2
from aof2.spark.errors import invalid_value

_SCHEMES = ("s3://", "s3a://", "s3n://")


def is_address(path: str) -> bool:
    """Whether this names something in an object store."""
    return path.lower().startswith(_SCHEMES)


def address(given: str) -> str:
    """Return the address as the package has it; Hadoop's words for S3 mean the same."""
    rest = given.split("://", 1)[1].rstrip("/")
    if glob.has_magic(rest):
        raise invalid_value(
            "path", given, "a log or a prefix of logs: there are no patterns in an object store"
        )
    return f"s3://{rest}"


def archived_names(prefix: str) -> list[str]:
    """Return the names of the streams below a prefix; none if it is a stream itself."""
    return aof2.archived(prefix)
