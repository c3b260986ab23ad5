"""The recorded incidents with their labels, each read from disk once."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from unittest.mock import patch

from diagnostics.checks.catalogue import catalogue
from diagnostics.diagnosis.explanation import Explanation
from diagnostics.window import parsed as parsed_module
from diagnostics.window import traces as traces_module
from diagnostics.window.window import window_of
from diagnostics.wire.capture import open_capture
from diagnostics.wire.records import Scrape
from diagnostics.wire.spans import Span, Take
from diagnostics.wire.trace_export import read_spans
from tests.builders import explained

FOLDER = Path(__file__).parents[2] / "fixtures/captures"
HEALTHY = "healthy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """What a diagnosis of one capture must say, and what it must not.

    `causes` is empty for a healthy one; `model`, `version` and `layer` are None where the label names none.
    """

    causes: frozenset[str]
    also: frozenset[str]
    never: frozenset[str]
    model: str | None
    version: str | None
    layer: str | None

    @property
    def healthy(self) -> bool:
        """Whether nothing of warning or worse may be said."""
        return not self.causes

    @property
    def allowed(self) -> frozenset[str]:
        """The checks that may be loud."""
        return self.causes | self.also

    @property
    def decidable(self) -> bool:
        """Whether a check for one of its causes exists."""
        return bool(self.causes & set(catalogue()))


def label_of(entry: Mapping[str, object]) -> Label:
    """Return the label that an entry of a `labels.json` makes."""

    def listed(key: str) -> frozenset[str]:
        value = entry.get(key, [])
        return frozenset(value if isinstance(value, list) else ())

    def text(key: str) -> str | None:
        value = entry.get(key)
        return value if isinstance(value, str) else None

    return Label(
        causes=listed("cause"),
        also=listed("also"),
        never=listed("not"),
        model=text("model"),
        version=text("version"),
        layer=text("layer"),
    )


@cache
def labels() -> Mapping[str, Label]:
    """Return the label of every capture by name."""
    entries = json.loads((FOLDER / "labels.json").read_text())
    return {name: label_of(entry) for name, entry in entries.items()}


@cache
def scrapes_of(name: str) -> tuple[Scrape, ...]:
    """Return what one capture holds."""
    return tuple(open_capture(FOLDER / f"{name}.tar.xz").scrapes())


def explanation_of(scrapes: Sequence[Scrape]) -> Explanation:
    """Return the explanation of the window that these scrapes make."""
    with _bodies_parsed_once():
        window = window_of(scrapes)
    return explained(window)


@cache
def explained_whole(name: str) -> Explanation:
    """Return the explanation of a capture that nothing is left out of; made once."""
    return explanation_of(scrapes_of(name))


_PARSERS = {
    parsed_module: ("read_statistics", "parse_model_config", "parse_client", "parse_log", "parse_nvml", "parse_host"),
}
_REMEMBERED = [
    (module, name, lru_cache(maxsize=16_384)(getattr(module, name)))
    for module, names in _PARSERS.items()
    for name in names
]


@lru_cache(maxsize=16_384)
def _spans_of(body: bytes, until: float | None) -> tuple[list[Span], int]:
    spans: list[Span] = []
    return spans, read_spans(body, spans.append, until)


def _remembered_spans(body: bytes, take: Take, until: float | None = None) -> int:
    spans, corrupt = _spans_of(body, until)
    for span in spans:
        take(span)
    return corrupt


@contextmanager
def _bodies_parsed_once() -> Iterator[None]:
    """Remember what a body parsed to: each capture is replayed some twenty times and most of its bodies stay."""
    with ExitStack() as patches:
        patches.enter_context(patch.object(traces_module, "read_spans", _remembered_spans))
        for module, name, remembered in _REMEMBERED:
            patches.enter_context(patch.object(module, name, remembered))
        yield
