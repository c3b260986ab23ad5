"""TLS of the web configuration, for gRPC: the same certificate, key and authorities, read anew when they change."""

from __future__ import annotations

import logging
import ssl
from typing import Any

import grpc

from diagnostics.errors import UsageError
from diagnostics.service.http.credentials import Credentials
from diagnostics.service.http.web_config import TlsFiles
from diagnostics.settings.text_file import LARGEST_FILE, bytes_of

log = logging.getLogger(__name__)
_VERSIONS = (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)


def refuse_versions(tls: TlsFiles | None, setting: str) -> None:
    """Refuse what gRPC cannot keep to: it always speaks TLS 1.2 and 1.3.

    Raises:
        UsageError: the web configuration wants only one of them; `setting` is what asked for gRPC.

    """
    if tls is not None and (tls.min_version, tls.max_version) != _VERSIONS:
        hint = "leave min_version and max_version out of web.config_file, or take spans over HTTP only"
        raise UsageError("gRPC speaks both TLS 1.2 and TLS 1.3", where=setting, hint=hint)


def server_credentials(credentials: Credentials) -> Any:
    """Return gRPC's credentials of a server; None for plain text.

    Certificates of clients are asked for where they are required, and not where they are only verified if given.

    Raises:
        UsageError: a file cannot be read.

    """
    tls = credentials.config.tls
    if tls is None:
        return None
    return grpc.dynamic_ssl_server_credentials(
        _read(tls), _Changes(credentials).take, require_client_authentication=credentials.config.certificates_required
    )


class _Changes:
    """Asked at each handshake whether there is something new."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials, self._taken = credentials, credentials.config

    def take(self) -> Any:
        """Return the new certificate, key and authorities; None while nothing changed."""
        config = self._credentials.config
        if config is self._taken or config.tls is None:
            return None
        self._taken = config
        try:
            return _read(config.tls)
        except UsageError as error:
            log.warning("gRPC goes on with the certificate it has: %s", error)
            return None


def _read(tls: TlsFiles) -> Any:
    pair = (bytes_of(tls.key_file, LARGEST_FILE), bytes_of(tls.cert_file, LARGEST_FILE))
    authorities = bytes_of(tls.client_ca_file, LARGEST_FILE) if tls.client_ca_file else None
    return grpc.ssl_server_certificate_configuration([pair], root_certificates=authorities)
