"""What was made of a window so far, each thing once: readings, changes, and what they are read from."""

from __future__ import annotations

from diagnostics.signals.reading import Reading
from diagnostics.signals.subject import Subject
from diagnostics.window.lifecycle import ServerChange
from diagnostics.window.view import ModelView
from diagnostics.window.window import Window

Span = tuple[float, float]


class EvidenceCache:
    """A window, and what was made of it so far."""

    def __init__(self, window: Window) -> None:
        self.window, self.span = window, (window.start, window.end)
        self.graphs = {name: server.graph for name, server in window.servers.items()}
        self._of: dict[tuple[str | None, ...], SubjectCache] = {}
        self._whole: dict[tuple[str, Span], ModelView] = {}
        self.changes: dict[str, tuple[ServerChange, ...]] = {}
        self.engines: dict[tuple[str, str | None], bool] = {}

    def seen(self, on: Subject) -> SubjectCache:
        """Return what was made of a subject so far.

        A model's counters are the same from wherever it is called; an ensemble's are its own.
        """
        # A tuple is hashed and compared in a fifth of a subject's time, and every reading is looked up by one.
        key = (on.server, on.model, on.version) if on.model else (on.server, None, on.gpu, on.ensemble)
        seen = self._of.get(key)
        if seen is None:
            seen = self._of[key] = SubjectCache(self, on.within(None) if on.model else on)
        return seen

    def let_go(self) -> None:
        """Part what refers to each other, so that the window's memory is free at once and not when cycles are sought.

        Who still reads in another thread makes anew what is missing.
        """
        for view in self._whole.values():
            view.part()
        self._whole.clear()
        self._of.clear()

    def whole(self, server: str, span: Span) -> ModelView:
        """Return a server within a span; views of its models beside it are shared by all who look."""
        view = self._whole.get((server, span))
        if view is None:
            view = self._whole[server, span] = _view(self.window, server, span)
        return view


class SubjectCache:
    """A subject: its readings, by signal of the whole window and by signal and span of parts of it; and its views."""

    def __init__(self, made: EvidenceCache, on: Subject) -> None:
        self.readings: dict[str | tuple[str, Span], Reading] = {}
        self._made, self._on = made, on
        self._views: dict[Span, ModelView] = {}

    def view(self, span: Span) -> ModelView:
        """Return the subject within a span."""
        view = self._views.get(span)
        if view is None:
            view = self._views[span] = self._view(span)
        return view

    def _view(self, span: Span) -> ModelView:
        on = self._on
        if on.gpu is not None:
            return _view(self._made.window, on.server, span, on.gpu)
        model, version = (on.model, on.version) if on.model else (on.ensemble, None)
        return self._made.whole(on.server, span).beside(model, version)


def _view(window: Window, server: str, span: Span, gpu: str | None = None) -> ModelView:
    start, end = span
    return ModelView(
        window=window, server=window.servers[server], model=None, version=None, start=start, end=end, gpu=gpu
    )
