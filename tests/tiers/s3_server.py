"""The S3 server of the demo, and its credentials."""

from aof2.demo.object_store import (
    ACCESS_KEY_ID,
    REGION,
    SECRET_ACCESS_KEY,
    S3Server,
    customer_key,
    find_weed,
)

__all__ = [
    "ACCESS_KEY_ID",
    "REGION",
    "SECRET_ACCESS_KEY",
    "S3Server",
    "customer_key",
    "find_weed",
]
