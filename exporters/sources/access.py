"""How a source is reached: deadline, credentials, TLS. Secrets live here and are shown nowhere."""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from urllib.parse import quote

from diagnostics.errors import UsageError, reason_of
from diagnostics.settings.addresses import REDACTED
from diagnostics.settings.text_file import up_to

DEFAULT_TIMEOUT = 5.0
# Of a store: a query over hours of a fleet reads from disk; Prometheus itself gives up after two minutes.
STORE_TIMEOUT = 30.0
# A server with 1,000 models and summaries on answers with about 10 MB; beyond this it is not a Triton page.
MAX_BODY_BYTES = 64 * 2**20
# Servers take no header beyond some tens of kilobytes; what is larger is another file, or a device without an end.
_FEWEST_OF_A_SECRET = 8
_LARGEST_SECRET = 64 * 2**10
_NAMING = "its URL itself, or --metrics-url or --grpc-url (metrics_url and grpc_url in the settings)"
# What gives credentials on a command line.
ON_THE_COMMAND_LINE = "$DIAG_BEARER_TOKEN, $DIAG_BASIC_AUTH, --bearer-token-file, --basic-auth-file or --header"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """How to read a server. Credentials are left out of its repr.

    Attributes:
        timeout: seconds after which one read counts as failed; None for what its kind of source usually needs.
        bearer_token: sent as `Authorization: Bearer …`; excludes `basic`.
        basic: `user:password`, sent as `Authorization: Basic …`.
        headers: further headers of every request.
        ca_file: PEM file of the authorities to trust instead of the system's.
        cert_file: PEM file of the client's certificate.
        key_file: PEM file of the client's key, where `cert_file` does not hold it.
        insecure: whether a server's certificate goes unverified.
        max_body: bytes of an unpacked answer beyond which it is given up.
        metrics_url: the metrics endpoint, where it is not at the usual offset from the port given.
        grpc_url: the gRPC endpoint, likewise.
        dcgm_url: the page of a dcgm-exporter for the servers' GPUs, if there is one.
        iterations: whether to read `trtllm-serve`'s list of iterations, of which each goes to one reader only.
        credentials_by: what gives credentials where these options come from, for messages.

    """

    timeout: float | None = None
    bearer_token: str | None = field(default=None, repr=False)
    basic: str | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    insecure: bool = False
    max_body: int = MAX_BODY_BYTES
    metrics_url: str | None = field(default=None, repr=False)
    grpc_url: str | None = field(default=None, repr=False)
    dcgm_url: str | None = field(default=None, repr=False)
    iterations: bool = False
    credentials_by: str = ON_THE_COMMAND_LINE

    def __post_init__(self) -> None:
        if self.bearer_token and self.basic:
            raise UsageError("a bearer token and a password are both given", hint="give one of them")
        if self.bearer_token and not self.bearer_token.isascii():
            raise UsageError("the bearer token is not ASCII", hint="copy it again; RFC 6750 has no other characters")

    @property
    def read_timeout(self) -> float:
        """Seconds after which one read of a server counts as failed."""
        return DEFAULT_TIMEOUT if self.timeout is None else self.timeout

    @property
    def has_credentials(self) -> bool:
        return bool(self.bearer_token or self.basic or self.cert_file)

    @property
    def when_denied(self) -> str:
        """What to do where a server answers that it wants other credentials (HTTP 401 or 403)."""
        if self.has_credentials:
            return "look at these credentials, and at what they may read"
        return f"give credentials: {self.credentials_by}"

    def for_user(self, user: str | None) -> SourceOptions:
        """Return these options with `user` (`name:password`) as the credentials; self for None."""
        return self if user is None else replace(self, basic=user, bearer_token=None)

    def without_credentials(self) -> SourceOptions:
        """Return these options for a port that nobody named: what listens there may be anyone's."""
        if not (self.has_credentials or self.headers):
            return self
        named = f"name the port, as credentials go to no other: {_NAMING}"
        bare = replace(self, bearer_token=None, basic=None, headers={}, cert_file=None, key_file=None)
        return replace(bare, credentials_by=named)

    def request_headers(self) -> dict[str, str]:
        """Return the headers of every request, credentials included: never log them."""
        headers = dict(self.headers)
        if self.bearer_token:
            headers["Authorization"] = f"Bearer {self.bearer_token}"
        elif self.basic:
            headers["Authorization"] = f"Basic {base64.b64encode(self.basic.encode()).decode()}"
        return headers

    def scrub(self, text: str) -> str:
        """Return `text` without any credential that a server may have echoed."""
        for secret in self._secrets():
            text = text.replace(secret, REDACTED)
        return text

    def scrub_bytes(self, body: bytes) -> bytes:
        """Return the body of an answer without any credential that a server may have echoed.

        A password as short as a word of the body could be one: it stays where it is not with its user.
        """
        for secret in self._secrets():
            if len(secret) >= _FEWEST_OF_A_SECRET:
                for form in {secret, json.dumps(secret)[1:-1], quote(secret, safe="")}:
                    body = body.replace(form.encode(), REDACTED.encode())
        return body

    def _secrets(self) -> list[str]:
        """Return what is secret in the requests, longest first: a part of one would leave the rest of it."""
        found = {self.bearer_token, self.basic}
        for value in self.request_headers().values():
            found |= {value, value.partition(" ")[2]}
        if self.basic:
            found.add(self.basic.partition(":")[2])
        return sorted(filter(None, found), key=len, reverse=True)

    def tls(self) -> ssl.SSLContext:
        """Return the TLS context of these options, which servers that are reached alike share.

        Raises:
            UsageError: a certificate or key file cannot be used.

        """
        files = (self.ca_file, self.cert_file, self.key_file)
        for file in filter(None, files):
            if file.is_fifo():  # OpenSSL waits for one without end
                raise UsageError("is a pipe, not a file", where=str(file))
        return _context(*files, self.insecure, tuple(map(_stamp, files)))


def read_secret(path: Path, what: str) -> str:
    """Return the one line that the file `path` holds.

    Args:
        path: the file; surrounding white space is dropped.
        what: what the line is, for messages; the line itself is never shown.

    Raises:
        UsageError: the file cannot be read, is empty, too large, or holds several lines.

    """
    try:
        data = up_to(path, _LARGEST_SECRET + 1)
        text = data.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the {what}: {reason_of(error)}", where=str(path)) from None
    if len(data) > _LARGEST_SECRET:
        raise UsageError(f"the {what} is larger than {_LARGEST_SECRET // 2**10} KiB", where=str(path))
    return clean_secret(text, what, str(path))


def secret_of(file: Path | None, what: str) -> str | None:
    """Return what `read_secret` does; None without a file."""
    return read_secret(file, what) if file is not None else None


def clean_secret(text: str, what: str, where: str) -> str:
    """Return `text` without surrounding white space, refused where it cannot be a header's value."""
    text = text.strip()
    if not text:
        raise UsageError(f"the {what} is empty", where=where)
    if not text.isprintable():
        raise UsageError(f"the {what} is not one line of printable text", where=where)
    return text


# A context holds the system's authorities, 1 MB and 40 ms each: hundreds of servers must not have one each.
@lru_cache(maxsize=64)
def _context(
    ca_file: Path | None, cert_file: Path | None, key_file: Path | None, insecure: bool, _: tuple[object, ...]
) -> ssl.SSLContext:
    context = _trust(ca_file)
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if cert_file:
        _present(context, cert_file, key_file)
    return context


def _stamp(file: Path | None) -> tuple[int, int] | None:
    """Return what changes when a file is replaced; None where there is none."""
    try:
        found = file.stat() if file else None
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_size) if found else None


def _trust(ca_file: Path | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=str(ca_file) if ca_file else None)
    except ssl.SSLError:
        raise UsageError("holds no certificate in PEM form", where=str(ca_file)) from None
    except OSError as error:
        raise UsageError(f"cannot read the CA file: {reason_of(error)}", where=str(ca_file)) from None


def _present(context: ssl.SSLContext, cert_file: Path, key_file: Path | None) -> None:
    try:
        # An encrypted key would make OpenSSL ask on the terminal; an empty password makes it fail instead.
        context.load_cert_chain(cert_file, key_file, password="")
    except ssl.SSLError:
        where = str(key_file or cert_file)
        hint = "give an unencrypted PEM key that belongs to the certificate"
        raise UsageError("the client certificate cannot be used", where=where, hint=hint) from None
    except OSError as error:
        raise UsageError(f"cannot read it: {reason_of(error)}", where=str(cert_file)) from None
