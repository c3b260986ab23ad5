"""Files that a user names: read whole, and bounded."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from diagnostics.errors import CollectError
from diagnostics.settings.text_file import bytes_of, up_to
from diagnostics.wire.records import BodyKind, Scrape
from exporters.sources.schedule import CLOCK

MOST_BYTES = 64 * 2**20
"""Twice the largest tokenizer seen; a hundred thousand prompts of a page, and more than any report."""


def read_given(path: Path) -> bytes:
    """Return what a file, or a pipe, holds.

    Raises:
        UsageError: it cannot be read, or holds more than 64 MiB.

    """
    return bytes_of(path, MOST_BYTES, hint="is it the right file?")


# A configuration is a few kilobytes; weights and engines beside it are never read.
_MAX_FILE_BYTES = 2**20
_PATTERNS = ("*/config.pbtxt", "*/configs/*.pbtxt", "*/[0-9]*/model.yaml")
_MARK = ".keep"


def repository_scrapes(root: Path, servers: Sequence[str]) -> Iterator[Scrape]:
    """Yield the configuration files below `root`, for each of `servers`.

    A version folder is kept as an empty file `<model>/<version>/.keep`, so that its existence can be seen.

    Raises:
        CollectError: `root` is no folder or holds no model's `config.pbtxt`, or a file cannot be read.

    """
    bodies = {name: _body(path) for name, path in _files(root).items()}
    for server in servers:
        for name, body in bodies.items():
            yield _scrape(server, name, body)


def _files(root: Path) -> dict[str, Path]:
    """Return the files that are of use, by their path below `root`; those of versions need not exist."""
    if not root.is_dir():
        raise CollectError("is no folder" if root.exists() else "does not exist", where=str(root))
    files = sorted({path for pattern in _PATTERNS for path in root.glob(pattern) if path.is_file()})
    if not any(path.name == "config.pbtxt" for path in files):
        raise CollectError("holds no <model>/config.pbtxt: not a model repository", where=str(root))
    versions = sorted(path / _MARK for path in root.glob("*/[0-9]*") if path.is_dir())
    return {path.relative_to(root).as_posix(): path for path in (*files, *versions)}


def _scrape(server: str, name: str, body: bytes) -> Scrape:
    return Scrape(server=server, kind=BodyKind.REPOSITORY, name=name, at=CLOCK.now(), mono=time.monotonic(), body=body)


class RepositoryFiles:
    """The files of one repository, read again where they were changed.

    Attributes:
        root: the folder.

    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._known: dict[str, tuple[int, int]] = {}

    def changed(self, server: str) -> list[Scrape]:
        """Return the files that are new or were written since the last call, as files of `server`.

        Raises:
            CollectError: as `repository_scrapes`.

        """
        found = []
        for name, path in _files(self.root).items():
            written = _written(path)
            if self._known.get(name) != written:
                found.append(_scrape(server, name, _body(path)))
                self._known[name] = written
        return found


def _written(path: Path) -> tuple[int, int]:
    """Return when a file was written and its size; zeros for one that does not exist."""
    try:
        found = path.stat()
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_size


def _body(path: Path) -> bytes:
    if path.name == _MARK:
        return b""
    try:
        body = up_to(path, _MAX_FILE_BYTES + 1)  # it may grow, or become a pipe, once its size is known
    except OSError as error:
        raise CollectError(f"cannot be read: {error.strerror or error}".lower(), where=str(path)) from None
    if len(body) > _MAX_FILE_BYTES:
        raise CollectError("is larger than any configuration (1 MiB)", where=str(path))
    return body
