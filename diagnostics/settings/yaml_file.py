"""YAML of which each key's line is known: mappings, lists, and plain values as text; nothing that could expand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from diagnostics.errors import UsageError
from diagnostics.settings.text_file import text_of

_DEEPEST = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """A value and the line of its key. `value` is None for nothing, text, a list of leaves, or a mapping."""

    line: int
    value: str | list[Leaf] | Mapping[str, Leaf] | None


class YamlDocument:
    """One file.

    Attributes:
        roots: its documents, of which a file has one unless it says `---`; empty ones are left out.

    """

    def __init__(self, file: Path, deepest: int = _DEEPEST) -> None:
        """Read it.

        Args:
            file: where it is.
            deepest: how many mappings and lists may lie within each other.

        Raises:
            UsageError: it cannot be read, is no YAML, or uses anchors, aliases, tags or a key twice.

        """
        self.file, self._deepest = file, deepest
        text = text_of(file)
        try:
            self._refuse_expansion(text)
            nodes = list(yaml.compose_all(text, Loader=yaml.SafeLoader))
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            problem = getattr(error, "problem", None)
            what = f"is not YAML: {problem}" if problem else "is not YAML"
            raise self.wrong(what, mark.line + 1 if mark else None) from None
        self.roots = [self._leaf(node) for node in nodes if node is not None]

    @property
    def root(self) -> Leaf:
        """The only document; an empty mapping where there is none.

        Raises:
            UsageError: there are several.

        """
        if len(self.roots) > 1:
            raise self.wrong("holds several documents", self.roots[1].line)
        return self.roots[0] if self.roots else Leaf(line=1, value={})

    def wrong(self, what: str, line: int | None) -> UsageError:
        """Return the error that says what is wrong where."""
        return UsageError(what, where=f"{self.file}:{line}" if line else str(self.file))

    def section(self, leaf: Leaf, known: Mapping[str, str] | frozenset[str], what: str) -> Mapping[str, Leaf]:
        """Return the keys of a mapping; those that are not known are refused."""
        if leaf.value is None:
            return {}
        if not isinstance(leaf.value, Mapping):
            raise self.wrong(f"{what} is no mapping", leaf.line)
        for key, inner in leaf.value.items():
            if key not in known:
                raise self.wrong(f"{what} has no key {key!r} here; it has {', '.join(sorted(known))}", inner.line)
        return leaf.value

    def text(self, leaf: Leaf, what: str) -> str:
        """Return a plain value."""
        if not isinstance(leaf.value, str):
            raise self.wrong(f"{what} is no text", leaf.line)
        return leaf.value

    def _refuse_expansion(self, text: str) -> None:
        # A few aliases of aliases are gigabytes once expanded, and deep nesting takes minutes.
        depth = 0
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            mark = event.start_mark
            line = mark.line + 1 if mark else None
            if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
                raise self.wrong("anchors and aliases are not allowed", line)
            if getattr(event, "tag", None) is not None:
                raise self.wrong("tags are not allowed", line)
            if depth > self._deepest:
                raise self.wrong("is nested too deeply", line)

    def _leaf(self, node: yaml.Node) -> Leaf:
        line = node.start_mark.line + 1
        if isinstance(node, yaml.MappingNode):
            return Leaf(line=line, value=dict(self._pairs(node)))
        if isinstance(node, yaml.SequenceNode):
            return Leaf(line=line, value=[self._leaf(inner) for inner in node.value])
        return Leaf(line=line, value=None if node.tag.endswith(":null") else str(node.value))

    def _pairs(self, node: yaml.MappingNode) -> Iterator[tuple[str, Leaf]]:
        seen: set[str] = set()
        for key, value in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode) or key.value in seen:
                raise self.wrong("a key is there twice, or is no text", line)
            seen.add(key.value)
            yield key.value, Leaf(line=line, value=self._leaf(value).value)
