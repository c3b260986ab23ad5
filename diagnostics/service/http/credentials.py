"""What decides who may come in: the web configuration and the token, read anew when their files change."""

from __future__ import annotations

import logging
import os
import ssl
from collections.abc import Callable
from functools import partial
from pathlib import Path

from diagnostics.errors import UsageError
from diagnostics.service.http.web_config import WebConfig, read_web_config
from diagnostics.settings.tree import WebSettings

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
    def asked(self) -> bool:
        """Whether anyone is asked for a password, a token or a certificate."""
        return bool(self.config.users or self.token or self.config.certificates_required)

    def refresh(self) -> None:
        """Take up changed files. Those that cannot be used are told of once, and the old contents stay."""
        stamp = self._stamped()
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            config, token = self._read()
            self._refuse_other_kind(config, token)
        except UsageError as error:
            self._tell(error)
        else:
            self._apply(partial(self._take, config, token))

    def _refuse_other_kind(self, config: WebConfig, token: bytes | None) -> None:
        where = str(self._web.config_file)
        if (config.tls is None) != (self.tls is None):
            raise UsageError("TLS can be switched on and off at a restart only", where=where)
        if self.asked and not (config.users or token or config.certificates_required):
            raise UsageError("authentication can be given up at a restart only", where=where)

    def _take(self, config: WebConfig, token: bytes | None) -> None:
        try:
            if config.tls is not None and self.tls is not None:
                config.tls.load_into(self.tls)
        except UsageError as error:
            self._tell(error)
        else:
            self.config, self.token = config, token
            self._stamp = self._stamped()
            log.info("web configuration read anew")

    def _tell(self, error: UsageError) -> None:
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
