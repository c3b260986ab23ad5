"""What is known of one kind of inference server: how to recognise its page, and where on it things are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from diagnostics import names
from diagnostics.wire.exposition import SeriesLayout


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOption:
    """How a user sets one limit of an engine.

    Attributes:
        flag: the command-line option.
        key: the same in an options file, nested keys joined by dots; empty without such a file.

    """

    flag: str
    key: str = ""

    def setting(self, value: int) -> str:
        """Return the option with a value, on the command line and in the file."""
        *outer, inner = self.key.split(".")
        written = f"{inner}: {value}"
        for key in reversed(outer):
            written = f"{key}: {{{written}}}"
        return f"{self.flag} {value}" + (f" (in its YAML options: {written})" if self.key else "")

    def __str__(self) -> str:
        return self.flag + (f" (in its YAML options: {self.key})" if self.key else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerKind:
    """One kind of server. What a kind does not state is not read of it.

    Attributes:
        name: what its users call it.
        prefixes: how names of families begin that no other kind exports.
        marks: whole names of series that no other kind exports, where it has no prefix of its own.
        never: names of series that show that a page with its marks is another kind's.
        gauges: family -> what it means in an `EngineSample`.
        typed_gauges: family -> the label that says what a series is, and its values -> what they mean.
        limits: info family -> label -> what it means in an `EngineSample`.
        constants: what is the same for every server of this kind.
        requests: series -> which counter it adds to.
        errors: series of failed requests -> the label with the HTTP status; empty where all are failures.
        stored: patterns of the names that are read from a store; of a kind that is not read, one that shows it.
        labels: labels by which it splits one server's series.
        has_api: whether its statistics and configuration can be read from an API of its own.
        slots, tokens, memory: how to set its slots, its token budget and the memory of its KV cache.
        unread: what its page does not show, or what is not read of it.
        instead: what to name instead, where nothing of it is read.

    """

    name: str
    prefixes: tuple[str, ...] = ()
    marks: frozenset[str] = frozenset()
    never: frozenset[str] = frozenset()
    gauges: Mapping[str, str] = field(default_factory=dict)
    typed_gauges: Mapping[str, tuple[str, Mapping[str, str]]] = field(default_factory=dict)
    limits: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    constants: Mapping[str, float] = field(default_factory=dict)
    requests: Mapping[str, str] = field(default_factory=dict)
    errors: Mapping[str, str] = field(default_factory=dict)
    stored: tuple[str, ...] = ()
    labels: frozenset[str] = frozenset()
    has_api: bool = False
    slots: ServerOption | None = None
    tokens: ServerOption | None = None
    memory: ServerOption | None = None
    unread: tuple[str, ...] = ()
    instead: str = ""

    @property
    def is_read(self) -> bool:
        """Whether anything of its pages is read."""
        return not self.instead

    @property
    def shows_time(self) -> bool:
        """Whether its page tells how long requests are in the engine."""
        return "infer_seconds" in self.requests.values()

    def shown_on(self, layout: SeriesLayout) -> bool:
        """Return whether a page is of this kind."""
        found = layout.by_name.keys()
        if self.never & found:
            return False
        if self.marks & found and any(
            names.SERVE_MODEL in layout.series[slot].labels
            for name in self.marks & found
            for slot in layout.by_name[name]
        ):
            return True
        return bool(self.prefixes) and any(name.startswith(self.prefixes) for name in found)

    def version_on(self, layout: SeriesLayout) -> str:
        """Return the version that the page tells in an info family of its own; empty where none does."""
        for name, slots in layout.by_name.items():
            if self.prefixes and name.startswith(self.prefixes) and name.endswith("_info"):
                version = layout.series[slots[0]].labels.get(names.VERSION, "")
                if version:
                    return version
        return ""

    def served_on(self, layout: SeriesLayout, model: str) -> bool:
        """Return whether the page counts requests of this model in the server's own words."""
        return any(
            layout.series[slot].labels.get(names.SERVE_MODEL) == model
            for name in self.requests.keys() & layout.by_name.keys()
            for slot in layout.by_name[name]
        )
