"""What was made of a window so far, each thing once: readings, changes, and what they are read from."""

from __future__ import annotations

from diagnostics.signals.reading import Reading
from diagnostics.signals.subject import Subject
from diagnostics.window.lifecycle import Change
from diagnostics.window.view import View
from diagnostics.window.window import Window

Span = tuple[float, float]


class Made:
    """A window, and what was made of it so far."""

    def __init__(self, window: Window) -> None:
        self.window = window
        self.graphs = {name: server.graph for name, server in window.servers.items()}
        self._of: dict[Subject, Seen] = {}
        self.changes: dict[str, tuple[Change, ...]] = {}
        self.engines: dict[tuple[str, str | None], bool] = {}

    def seen(self, on: Subject) -> Seen:
        """Return what was made of a subject so far.

        A model's counters are the same from wherever it is called; an ensemble's are its own.
        """
        bare = on.within(None) if on.model else on
        seen = self._of.get(bare)
        if seen is None:
            seen = self._of[bare] = Seen(self.window, bare)
        return seen


class Seen:
    """A subject: its readings by signal and span, and what they are read from."""

    def __init__(self, window: Window, on: Subject) -> None:
        self.readings: dict[tuple[str, Span], Reading] = {}
        self._window, self._on = window, on
        self._views: dict[Span, View] = {}

    def view(self, span: Span) -> View:
        """Return the subject within a span."""
        view = self._views.get(span)
        if view is None:
            view = self._views[span] = _view(self._window, self._on, span)
        return view


def _view(window: Window, on: Subject, span: Span) -> View:
    model, version = (on.model, on.version) if on.model else (on.ensemble, None)
    return View(
        window=window,
        server=window.servers[on.server],
        model=model,
        version=version,
        start=span[0],
        end=span[1],
        gpu=on.gpu,
    )
