"""A store in a bucket of S3, or of a service with its interface. Requests are signed with AWS Signature Version 4."""

from __future__ import annotations

import hashlib
import hmac
import ssl
from collections.abc import Mapping
from datetime import UTC, datetime

from bakery.core.store_address import Credentials, StoreAddress
from bakery.runs.stores.http import HttpStore


class S3Store(HttpStore):
    """A prefix of a bucket. Amazon has a host for each bucket; other services have the bucket in the path."""

    _makes_folders = False

    def __init__(self, address: StoreAddress, secret: Credentials, tls: ssl.SSLContext | None) -> None:
        super().__init__(address, secret, tls)
        self._region, self._key = address.region, secret
        # A certificate for *.s3… does not fit a bucket with a dot.
        in_path = bool(address.host) or "." in address.bucket
        amazon = f"s3.{address.region}.amazonaws.com"
        self.host = address.host or (amazon if in_path else f"{address.bucket}.{amazon}")
        self.folder = "/".join(filter(None, (address.bucket if in_path else "", address.path)))
        default = 443 if address.secure else 80
        self._host_header = self.host if self.port == default else f"{self.host}:{self.port}"

    def headers(self, method: str, path: str, body: bytes) -> Mapping[str, str]:
        """Return the headers that sign a request; none without a key, for what anybody may read."""
        if not self._key.password:
            return {}
        return signed(method, self._host_header, path, body, self._region, self._key, datetime.now(UTC))


def signed(
    method: str, host: str, path: str, body: bytes, region: str, key: Credentials, now: datetime
) -> dict[str, str]:
    """Return the headers that sign a request to S3 without a query; ``path`` is quoted already."""
    moment, day = now.strftime("%Y%m%dT%H%M%SZ"), now.strftime("%Y%m%d")
    content = hashlib.sha256(body).hexdigest()
    headers = {"host": host, "x-amz-content-sha256": content, "x-amz-date": moment}
    if key.token:
        headers["x-amz-security-token"] = key.token
    names = ";".join(sorted(headers))
    lines = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers))
    request = f"{method}\n{path}\n\n{lines}\n{names}\n{content}"
    scope = f"{day}/{region}/s3/aws4_request"
    text = f"AWS4-HMAC-SHA256\n{moment}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    secret = f"AWS4{key.password}".encode()
    for part in (day, region, "s3", "aws4_request"):
        secret = hmac.digest(secret, part.encode(), "sha256")
    signature = hmac.digest(secret, text.encode(), "sha256").hex()
    headers["Authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={key.user}/{scope}, SignedHeaders={names}, Signature={signature}"
    )
    return headers
