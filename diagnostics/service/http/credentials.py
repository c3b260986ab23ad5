"""TLS and users, in the format of Prometheus' web configuration files.

Source: https://prometheus.io/docs/prometheus/latest/configuration/https/. Keys that Python's TLS cannot honour
(`cipher_suites` by Go's names, `curve_preferences`, `client_allowed_sans`) are refused, as all unknown ones are.
"""

from __future__ import annotations

import logging
import os
import re
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

from diagnostics.errors import UsageError
from diagnostics.settings.text_file import LARGEST_FILE, bytes_of
from diagnostics.settings.tree import WebSettings
from diagnostics.settings.yaml_file import Leaf, YamlDocument

T = TypeVar("T")
_SECTIONS = frozenset({"tls_server_config", "http_server_config", "basic_auth_users"})
_TLS = frozenset({"cert_file", "key_file", "client_ca_file", "client_auth_type", "min_version", "max_version"})
_HTTP = frozenset({"http2", "headers"})
_HEADERS = frozenset(
    {
        "Content-Security-Policy",
        "X-Frame-Options",
        "X-Content-Type-Options",
        "X-XSS-Protection",
        "Strict-Transport-Security",
    }
)
_VERSIONS: Mapping[str, ssl.TLSVersion] = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
_CLIENTS: Mapping[str, ssl.VerifyMode] = {
    "NoClientCert": ssl.CERT_NONE,
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    "RequireAndVerifyClientCert": ssl.CERT_REQUIRED,
}
_BCRYPT = re.compile(r"\$2[aby]\$\d\d\$[./A-Za-z0-9]{53}")


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """What TLS is made of."""

    cert_file: Path
    key_file: Path
    client_ca_file: Path | None = None
    clients: ssl.VerifyMode = ssl.CERT_NONE
    min_version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2
    max_version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3

    @property
    def files(self) -> tuple[Path, ...]:
        """The files whose change changes it."""
        return tuple(file for file in (self.cert_file, self.key_file, self.client_ca_file) if file)

    def context(self) -> ssl.SSLContext:
        """Return the context of a server.

        Raises:
            UsageError: a file cannot be read or used.

        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version, context.maximum_version = self.min_version, self.max_version
        context.set_alpn_protocols(["http/1.1"])
        self.load_into(context)
        return context

    def load_into(self, context: ssl.SSLContext) -> None:
        """Let connections from now on use what the files hold now.

        Raises:
            UsageError: a file cannot be read or used.

        """
        for file in self.files:
            _usable(file)
        try:
            # An encrypted key would make OpenSSL ask on the terminal; an empty password makes it fail instead.
            context.load_cert_chain(self.cert_file, self.key_file, password="")
        except ssl.SSLError:
            hint = "give a PEM certificate and its unencrypted key"
            raise UsageError("the certificate and key cannot be used", where=str(self.cert_file), hint=hint) from None
        if self.client_ca_file is not None:
            try:
                context.load_verify_locations(self.client_ca_file)
            except ssl.SSLError:
                raise UsageError("holds no certificate in PEM form", where=str(self.client_ca_file)) from None
        context.verify_mode = self.clients


@dataclass(frozen=True, slots=True, kw_only=True)
class WebConfig:
    """The file's contents.

    Attributes:
        tls: None for plain HTTP.
        headers: added to every answer.
        users: bcrypt hashes by name; empty lets everyone in.

    """

    tls: TlsFiles | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    users: Mapping[str, bytes] = field(default_factory=dict, repr=False)

    @property
    def certificates_required(self) -> bool:
        """Whether clients without a certificate are rejected."""
        return self.tls is not None and self.tls.clients == ssl.CERT_REQUIRED


def read_web_config(file: Path) -> WebConfig:
    """Return what the file says. Paths in it are relative to its own folder.

    Raises:
        UsageError: it cannot be read, holds a key that is not known, or names a file that cannot be used.

    """
    document = YamlDocument(file)
    sections = document.section(document.root, _SECTIONS, "the file")
    nothing = Leaf(line=1, value=None)
    config = WebConfig(
        tls=_tls(document, sections.get("tls_server_config", nothing)),
        headers=_headers(document, sections.get("http_server_config", nothing)),
        users=_users(document, sections.get("basic_auth_users", nothing)),
    )
    if config.tls is not None:
        config.tls.context()
    return config


def _tls(document: YamlDocument, leaf: Leaf) -> TlsFiles | None:
    given = {key: document.text(value, key) for key, value in document.section(leaf, _TLS, "tls_server_config").items()}
    if not given:
        return None
    missing = {"cert_file", "key_file"} - given.keys()
    if missing:
        raise document.wrong(f"tls_server_config has no {' and no '.join(sorted(missing))}", leaf.line)
    authorities = given.get("client_ca_file")
    clients = given.get("client_auth_type", "NoClientCert")
    made = TlsFiles(
        cert_file=document.file.parent / given["cert_file"],
        key_file=document.file.parent / given["key_file"],
        client_ca_file=document.file.parent / authorities if authorities else None,
        clients=_one_of(document, leaf, "client_auth_type", clients, _CLIENTS),
        min_version=_one_of(document, leaf, "min_version", given.get("min_version", "TLS12"), _VERSIONS),
        max_version=_one_of(document, leaf, "max_version", given.get("max_version", "TLS13"), _VERSIONS),
    )
    if (made.clients != ssl.CERT_NONE) != (authorities is not None):
        raise document.wrong("client_ca_file and a client_auth_type that verifies come together", leaf.line)
    return made


def _one_of(document: YamlDocument, leaf: Leaf, key: str, word: str, known: Mapping[str, T]) -> T:
    if word not in known:
        raise document.wrong(f"{key} is {word!r}; it can be {', '.join(known)}", leaf.line)
    return known[word]


def _headers(document: YamlDocument, leaf: Leaf) -> Mapping[str, str]:
    section = document.section(leaf, _HTTP, "http_server_config")
    if "http2" in section and document.text(section["http2"], "http2") not in ("true", "false"):
        raise document.wrong("http2 is true or false", section["http2"].line)
    headers = document.section(section["headers"], _HEADERS, "headers") if "headers" in section else {}
    found = {name: document.text(value, name) for name, value in headers.items()}
    for name, value in found.items():
        if not value.isprintable() or not value.isascii():
            raise document.wrong(f"{name} cannot be a header's value", headers[name].line)
    return found


def _users(document: YamlDocument, leaf: Leaf) -> Mapping[str, bytes]:
    if leaf.value is None:
        return {}
    if not isinstance(leaf.value, Mapping):
        raise document.wrong("basic_auth_users is no mapping of names to bcrypt hashes", leaf.line)
    users = {name: document.text(value, "a user's hash") for name, value in leaf.value.items()}
    for name, hashed in users.items():
        if not _BCRYPT.fullmatch(hashed):
            raise document.wrong(f"the password of {name!r} is not hashed by bcrypt", leaf.value[name].line)
        if ":" in name or not name:
            raise document.wrong("a user's name is not empty and has no colon", leaf.value[name].line)
    return {name: hashed.encode() for name, hashed in users.items()}


def _usable(file: Path) -> None:
    """Refuse what OpenSSL, which reads files by their names, would wait for or read without end.

    Raises:
        UsageError: it is no file, cannot be read, or is larger than a certificate can be.

    """
    if file.exists() and not file.is_file():
        raise UsageError("is no file", where=str(file), hint="TLS is made of files; a pipe or a device can be none")
    bytes_of(file, LARGEST_FILE)


log = logging.getLogger(__name__)
_Stamp = tuple[tuple[int, int, int] | None, ...]


class Credentials:
    """Holds what the files said when they were last usable.

    Attributes:
        config: the web configuration; of nothing where there is no file.
        token: the bearer token; None where none is set.
        tls: the context of all connections; None for plain HTTP.

    """

    def __init__(
        self,
        web: WebSettings,
        read_secret: Callable[[Path, str], str],
        *,
        failed: Callable[[], None] = lambda: None,
        apply: Callable[[Callable[[], None]], None] = lambda change: change(),
    ) -> None:
        """Read the files.

        Args:
            web: names them.
            read_secret: reads the token's.
            failed: called when a changed file cannot be used.
            apply: calls what takes a change up where no connection is being opened meanwhile.

        Raises:
            UsageError: one cannot be used.

        """
        self._web, self._read_secret, self._failed, self._apply = web, read_secret, failed, apply
        self.config, self.token = self._read()
        self.tls: ssl.SSLContext | None = self.config.tls.context() if self.config.tls else None
        self._stamp = self._stamped()

    @property
    def requested(self) -> bool:
        """Whether anyone is asked for a password, a token or a certificate."""
        return bool(self.config.users or self.token or self.config.certificates_required)

    def refresh(self) -> None:
        """Take up changed files. Those that cannot be used are logged once, and the old contents stay."""
        stamp = self._stamped()
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            config, token = self._read()
            self._refuse_other_kind(config, token)
        except UsageError as error:
            self._log(error)
        else:
            self._apply(partial(self._take, config, token))

    def _refuse_other_kind(self, config: WebConfig, token: bytes | None) -> None:
        where = str(self._web.config_file)
        if (config.tls is None) != (self.tls is None):
            raise UsageError("TLS can be switched on and off at a restart only", where=where)
        if self.requested and not (config.users or token or config.certificates_required):
            raise UsageError("authentication can be given up at a restart only", where=where)

    def _take(self, config: WebConfig, token: bytes | None) -> None:
        try:
            if config.tls is not None and self.tls is not None:
                config.tls.load_into(self.tls)
        except UsageError as error:
            self._log(error)
        else:
            self.config, self.token = config, token
            self._stamp = self._stamped()
            log.info("web configuration read anew")

    def _log(self, error: UsageError) -> None:
        self._failed()
        log.warning("the web configuration stays as it was: %s", error)

    def _read(self) -> tuple[WebConfig, bytes | None]:
        config = read_web_config(self._web.config_file) if self._web.config_file else WebConfig()
        file = self._web.bearer_token_file
        return config, self._read_secret(file, "bearer token").encode() if file else None

    def _stamped(self) -> _Stamp:
        files = [file for file in (self._web.config_file, self._web.bearer_token_file) if file]
        files += self.config.tls.files if self.config.tls else ()
        return tuple(_stamp_of(file) for file in files)


def _stamp_of(file: Path) -> tuple[int, int, int] | None:
    try:
        found = os.stat(file)  # noqa: PTH116 - follows links, as mounted secrets are
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
