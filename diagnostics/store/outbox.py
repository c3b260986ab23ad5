"""What is yet to be sent, in one small JSON file per receiver: there even while the database is away or damaged."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import Any

log = logging.getLogger(__name__)
FOLDER = "outbox"
Json = dict[str, Any]


class MemoryOutbox:
    """Documents by name, for as long as the process lives."""

    def __init__(self) -> None:
        self._documents: dict[str, Json] = {}

    def read(self, name: str) -> Json:
        """Return a document; empty when there is none."""
        return self._documents.get(name, {})

    def write(self, name: str, document: Json) -> None:
        """Replace a document."""
        self._documents[name] = document

    def set_aside(self, name: str, error: Exception) -> None:
        """Forget a document that cannot be used."""
        log.warning("%s cannot be used (%s)", name, type(error).__name__)
        del self._documents[name]


class FileOutbox:
    """Documents by name. Each is replaced as a whole, and is on the disk when `write` returns."""

    def __init__(self, directory: Path) -> None:
        self._folder = directory / FOLDER

    def read(self, name: str) -> Json:
        """Return a document; empty when there is none, or none that can be read, which is then set aside."""
        path = self._path(name)
        try:
            found = json.loads(path.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            self.set_aside(name, error)
            return {}
        return found if isinstance(found, dict) else {}

    def write(self, name: str, document: Json) -> None:
        """Replace a document.

        Raises:
            OSError: it cannot be written; the old one stays.

        """
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._path(name)
        fresh = path.with_suffix(".new")
        with fresh.open("wb") as file:
            file.write(json.dumps(document).encode())
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def set_aside(self, name: str, error: Exception) -> None:
        """Keep a document that cannot be used under another name."""
        path = self._path(name)
        log.warning("%s cannot be used (%s); what it held is not told", path, type(error).__name__)
        try:
            path.replace(path.with_suffix(".damaged"))
        except OSError as again:
            log.warning("%s cannot be set aside: %s", path, again.strerror)

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.json"
