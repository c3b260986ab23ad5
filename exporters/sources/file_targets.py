"""Servers that files list: Prometheus' `file_sd`. A file is read again when it was changed."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from pathlib import Path

from diagnostics.errors import CollectError, DiagError, MalformedBody
from diagnostics.settings.text_file import text_of
from diagnostics.settings.yaml_file import Leaf, YamlDocument
from diagnostics.wire.json_body import json_value
from exporters.sources.target_list import TargetList, parse_targets

SUFFIXES = (".json", ".yaml", ".yml")
MOST_FILES = 1000
"""That the patterns of one source match; more are a pattern that was mistyped (ours)."""
_Stamp = tuple[int, int, int]


class FileTargets:
    """The files that some patterns match.

    A file that cannot be read is refused alone, and what it listed before stays. One that is removed lists nothing.
    """

    def __init__(self, patterns: Sequence[str], *, scheme: str, refresh: float) -> None:
        self.name = f"file {' '.join(patterns)}"
        self.refresh = refresh
        self._patterns, self._scheme = patterns, scheme
        self._read: dict[Path, tuple[_Stamp, TargetList]] = {}

    def find(self) -> TargetList:
        """Return what the files list now.

        Raises:
            CollectError: the patterns match too many files, or none of those that they matched before can be read.

        """
        files = self._matched()
        self._read = {file: known for file, known in self._read.items() if file in files}
        found = TargetList()
        for file in files:
            try:
                found.add(self._list_of(file))
            except DiagError as error:
                found.refuse(str(file), error.what)
                if file in self._read:
                    found.add(self._read[file][1])
        return found

    def _matched(self) -> list[Path]:
        matched = sorted({Path(file) for pattern in self._patterns for file in glob.iglob(pattern)})  # noqa: PTH207 - pathlib wants the folder apart
        if len(matched) > MOST_FILES:
            what = f"matches more than {MOST_FILES:,} files"
            raise CollectError(what, where=self.name, hint="name fewer")
        return matched

    def _list_of(self, file: Path) -> TargetList:
        try:
            found = file.stat()
        except OSError:
            raise CollectError("cannot be read", where=str(file)) from None
        stamp = (found.st_mtime_ns, found.st_size, found.st_ino)
        known = self._read.get(file)
        if known is None or known[0] != stamp:
            known = self._read[file] = (stamp, parse_targets(_decoded(file), str(file), self._scheme))
        return known[1]


def _decoded(file: Path) -> object:
    if file.suffix not in SUFFIXES:
        raise CollectError(f"ends with none of {', '.join(SUFFIXES)}", where=str(file))
    if file.suffix != ".json":
        return _plain(YamlDocument(file).root)
    try:
        return json_value(text_of(file))
    except ValueError:
        raise MalformedBody("is not JSON", where=str(file)) from None


def _plain(leaf: Leaf) -> object:
    """Return a value of YAML as JSON would have it; numbers are text."""
    if isinstance(leaf.value, list):
        return [_plain(one) for one in leaf.value]
    if leaf.value is None or isinstance(leaf.value, str):
        return leaf.value
    return {name: _plain(one) for name, one in leaf.value.items()}
