"""Requests with an AWS signature, made by hand: an opinion besides the client under test."""

from __future__ import annotations

import hashlib
import hmac
import http.client
import time
import urllib.parse
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

ACCESS_KEY_ID = "aof2-tests"
SECRET_ACCESS_KEY = "aof2-tests-secret"  # noqa: S105 (of a server that only this machine reaches)
REGION = "us-east-1"


@dataclass
class Answer:
    """What the server said."""

    status: int
    headers: dict[str, str]
    body: bytes


def signed_request(
    address: tuple[str, int],
    method: str,
    path: str,
    query: Mapping[str, str] | None = None,
    body: bytes = b"",
    headers: Mapping[str, str] | None = None,
) -> Answer:
    """Send one request and return the answer."""
    now = time.gmtime()
    stamp, day = time.strftime("%Y%m%dT%H%M%SZ", now), time.strftime("%Y%m%d", now)
    quoted_path = urllib.parse.quote(path, safe="/-_.~")
    pairs = sorted((query or {}).items())
    quoted_query = "&".join(
        f"{urllib.parse.quote(k, safe='-_.~')}={urllib.parse.quote(v, safe='-_.~')}"
        for k, v in pairs
    )
    body_hash = hashlib.sha256(body).hexdigest()
    signed = {
        "host": f"{address[0]}:{address[1]}",
        "x-amz-content-sha256": body_hash,
        "x-amz-date": stamp,
        **{k.lower(): v for k, v in (headers or {}).items()},
    }
    names = ";".join(sorted(signed))
    canonical = "\n".join(
        [
            method,
            quoted_path,
            quoted_query,
            *(f"{name}:{signed[name]}" for name in sorted(signed)),
            "",
            names,
            body_hash,
        ]
    )
    scope = f"{day}/{REGION}/s3/aws4_request"
    to_sign = "\n".join(
        ["AWS4-HMAC-SHA256", stamp, scope, hashlib.sha256(canonical.encode()).hexdigest()]
    )
    key = f"AWS4{SECRET_ACCESS_KEY}".encode()
    for step in (day, REGION, "s3", "aws4_request"):
        key = hmac.new(key, step.encode(), hashlib.sha256).digest()
    signature = hmac.new(key, to_sign.encode(), hashlib.sha256).hexdigest()
    signed["authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={ACCESS_KEY_ID}/{scope}, "
        f"SignedHeaders={names}, Signature={signature}"
    )
    connection = http.client.HTTPConnection(*address, timeout=30)
    try:
        target = quoted_path + (f"?{quoted_query}" if quoted_query else "")
        connection.request(method, target, body=body, headers=signed)
        response = connection.getresponse()
        answer_headers = {k.lower(): v for k, v in response.getheaders()}
        return Answer(response.status, answer_headers, response.read())
    finally:
        connection.close()
