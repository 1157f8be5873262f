"""A real S3 server for the demo, the tests and the benches: SeaweedFS from PyPI.

`server` runs it, `signing` talks to it. As a program it serves until interrupted:

    python -m aof2_dev.s3 /tmp/s3-data
"""

from aof2_dev.s3.server import S3Server, customer_key, find_weed
from aof2_dev.s3.signing import ACCESS_KEY_ID, REGION, SECRET_ACCESS_KEY

__all__ = [
    "ACCESS_KEY_ID",
    "REGION",
    "SECRET_ACCESS_KEY",
    "S3Server",
    "customer_key",
    "find_weed",
]
