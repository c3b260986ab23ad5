"""Reads a model repository's own files: what the server was told, before it completed it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from diagnostics.errors import CollectError
from diagnostics.wire.records import Kind, Scrape
from exporters.sources.clock import CLOCK

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
    if not root.is_dir():
        raise CollectError("is no folder" if root.exists() else "does not exist", where=str(root))
    files = sorted({path for pattern in _PATTERNS for path in root.glob(pattern) if path.is_file()})
    if not any(path.name == "config.pbtxt" for path in files):
        raise CollectError("holds no <model>/config.pbtxt: not a model repository", where=str(root))
    versions = sorted(path / _MARK for path in root.glob("*/[0-9]*") if path.is_dir())
    bodies = {path.relative_to(root).as_posix(): _body(path) for path in files}
    bodies |= {path.relative_to(root).as_posix(): b"" for path in versions}
    for server in servers:
        for name, body in bodies.items():
            yield Scrape(
                server=server,
                kind=Kind.REPOSITORY,
                name=name,
                at=CLOCK.now(),
                mono=time.monotonic(),
                body=body,
            )


def _body(path: Path) -> bytes:
    try:
        if path.stat().st_size > _MAX_FILE_BYTES:
            raise CollectError("is larger than any configuration (1 MiB)", where=str(path))
        return path.read_bytes()
    except OSError as error:
        raise CollectError(f"cannot be read: {error.strerror or error}".lower(), where=str(path)) from None
