"""Connections whose whole answer, headers included, must have come by a deadline.

A socket's timeout begins anew with every byte: a server that sends one a second would be read for ever.
"""

from __future__ import annotations

import io
import socket
import time
from typing import Any

from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool


class _TimelySocket:
    """A socket whose file raises TimeoutError once the time is up; it is the socket itself in all else."""

    def __init__(self, inner: socket.socket, until: float) -> None:
        self._inner, self._until = inner, until

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def makefile(self, *_: object, **__: object) -> io.BufferedReader:
        return io.BufferedReader(_TimelyFile(self._inner, self._until))


class _TimelyFile(io.RawIOBase):
    def __init__(self, inner: socket.socket, until: float) -> None:
        self._inner, self._until = inner, until
        self._file = inner.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._inner.settimeout(left)
        return self._file.readinto(buffer)

    def close(self) -> None:
        self._file.close()
        super().close()


class _Timely:
    """Counts the connect timeout from the connection's making, for everything that is read from it."""

    timeout: float | None
    sock: Any

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._made = time.monotonic()

    def connect(self) -> None:
        super().connect()  # type: ignore[misc]  # of the connection that this is mixed into
        if self.timeout is not None:
            self.sock = _TimelySocket(self.sock, self._made + self.timeout)


class _PlainConnection(_Timely, HTTPConnection): ...


class _SecureConnection(_Timely, HTTPSConnection): ...


class _PlainPool(HTTPConnectionPool):
    ConnectionCls = _PlainConnection


class _SecurePool(HTTPSConnectionPool):
    ConnectionCls = _SecureConnection


# For `PoolManager.pool_classes_by_scheme`.
TIMELY_POOLS: dict[str, type[HTTPConnectionPool]] = {"http": _PlainPool, "https": _SecurePool}
