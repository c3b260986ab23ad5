"""What was made of a window so far, each thing once: readings, changes, and what they are read from."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Protocol
from weakref import ref

from diagnostics import names
from diagnostics.evidence.coverage import MOST_JUDGED, Coverage, coverage
from diagnostics.signals.callers import requests_of
from diagnostics.signals.engine_history import EngineHistory, engine_history
from diagnostics.signals.engine_samples import (
    answers_apart,
    hides_its_time,
    is_engine,
    kind_serving,
    shows_its_time,
)
from diagnostics.signals.executions import service_time
from diagnostics.signals.gaps import paths
from diagnostics.signals.inner_calls import InnerCalls, inner_calls
from diagnostics.signals.outages import all_outages
from diagnostics.signals.signal import Reading, Scope, Signal, Subject
from diagnostics.signals.triton import REQUESTS
from diagnostics.tuning.service import ServiceTime
from diagnostics.window.graph import DeploymentGraph, Path
from diagnostics.window.lifecycle import ServerChange, changes
from diagnostics.window.normalize import ModelKey
from diagnostics.window.outages import Outage
from diagnostics.window.parsed import MOST_MODELS
from diagnostics.window.traces import SpanCounts, TracedRequest
from diagnostics.window.unanswered import Unanswered
from diagnostics.window.view import METRICS, STATISTICS, ModelView
from diagnostics.window.window import ServerWindow, Window
from diagnostics.wire.model_config import ModelConfig
from diagnostics.wire.servers.catalogue import is_enclosed
from diagnostics.wire.servers.kind import ServerKind

Span = tuple[float, float]
ENCLOSED = "enclosed"
"""The model control mode of a Triton inside another server: only that one loads its models."""


class EvidenceCache:
    """A window, and what was made of it so far."""

    def __init__(self, window: Window) -> None:
        self.window, self.span = window, (window.start, window.end)
        self.graphs = {name: server.graph for name, server in window.servers.items()}
        self._of: dict[tuple[str | None, ...], SubjectCache] = {}
        self._whole: dict[tuple[str, Span], ModelView] = {}
        self.changes: dict[str, tuple[ServerChange, ...]] = {}
        self.engines: dict[tuple[str, str | None], bool] = {}

    def seen(self, subject: Subject) -> SubjectCache:
        """Return what was made of a subject so far.

        A model's counters are the same from wherever it is called; an ensemble's are its own.
        """
        # A tuple is hashed and compared in a fifth of a subject's time, and every reading is looked up by one.
        key = (
            (subject.server, subject.model, subject.version)
            if subject.model
            else (subject.server, None, subject.gpu, subject.ensemble)
        )
        seen = self._of.get(key)
        if seen is None:
            seen = self._of[key] = SubjectCache(self, subject.within(None) if subject.model else subject)
        return seen

    def let_go(self) -> None:
        """Part what refers to each other, so that the window's memory is free at once and not when cycles are sought.

        Who still reads in another thread builds again what is missing.
        """
        for view in self._whole.values():
            view.part()
        self.window.across.clear()
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

    def __init__(self, made: EvidenceCache, subject: Subject) -> None:
        self.readings: dict[str | tuple[str, Span], Reading] = {}
        self._made, self._on = made, subject
        self._views: dict[Span, ModelView] = {}

    def view(self, span: Span) -> ModelView:
        """Return the subject within a span."""
        view = self._views.get(span)
        if view is None:
            view = self._views[span] = self._view(span)
        return view

    def _view(self, span: Span) -> ModelView:
        subject = self._on
        if subject.gpu is not None:
            return _view(self._made.window, subject.server, span, subject.gpu)
        model, version = (subject.model, subject.version) if subject.model else (subject.ensemble, None)
        return self._made.whole(subject.server, span).beside(model, version)


def _view(window: Window, server: str, span: Span, gpu: str | None = None) -> ModelView:
    start, end = span
    return ModelView(
        window=window, server=window.servers[server], model=None, version=None, start=start, end=end, gpu=gpu
    )


class Evidence(Protocol):
    """Answers questions about subjects. Never raises for missing data: a reading says why it is absent."""

    def read(self, signal: Signal, subject: Subject, span: Span | None = None) -> Reading:
        """Return the signal's value for a subject over the span, the whole window by default."""
        ...

    def subjects(self, scope: Scope) -> Sequence[Subject]:
        """Return all subjects of a kind, in a stable order."""
        ...

    def graph(self, server: str) -> DeploymentGraph:
        """Return the ensembles of a server; empty when configurations were not read."""
        ...

    def config(self, subject: Subject) -> ModelConfig | None:
        """Return the effective configuration of a model."""
        ...

    def config_file(self, subject: Subject) -> str | None:
        """Return the text of the model's config.pbtxt, None when the repository is not at hand."""
        ...

    def model_control(self, server: str) -> str:
        """Return the server's model control mode: `none`, `poll`, `explicit`; empty where it was not read.

        `ENCLOSED` where another server starts it, and nobody else can ask it to load a model.
        """
        ...

    def service_time(self, subject: Subject) -> ServiceTime | None:
        """Return an execution's time by batch size; None when nothing executed or was read."""
        ...

    def changes(self, server: str) -> Sequence[ServerChange]:
        """Return what happened to a server's models: loads, failed loads, restarts, new settings, in time order."""
        ...

    def refused(self, server: str) -> Mapping[str, str]:
        """Return why entries of what a server said were left out, by what they call themselves."""
        ...

    def coverage(self) -> Coverage:
        """Return which models are judged, and how many are left out as there are too many."""
        ...

    def outages(self, subject: Subject) -> Sequence[Outage]:
        """Return when a model, or a server as a whole, was not there, in time order."""
        ...

    def unanswered(self, server: str) -> Sequence[Unanswered]:
        """Return when one of a server's ports answered no read and the other did, the inference port's first."""
        ...

    def moments(self, server: str) -> Sequence[float]:
        """Return the instants (Unix seconds) at which a server's counters were read, in time order."""
        ...

    def paths(self, subject: Subject) -> Sequence[tuple[TracedRequest, Path]]:
        """Return an ensemble's traced requests in which every stage was seen, each with its critical path."""
        ...

    def calls(self, subject: Subject) -> Sequence[TracedRequest]:
        """Return the traced requests that called a model or ensemble themselves."""
        ...

    def inner_calls(self, server: str) -> Mapping[str, InnerCalls]:
        """Return what a server's models call from inside their executions, from counters, by the caller."""
        ...

    def span_counts(self) -> SpanCounts:
        """Return what became of the spans that arrived."""
        ...

    def is_engine(self, subject: Subject) -> bool:
        """Return whether the model batches inside, so that its own batch size and queue mean nothing."""
        ...

    def server_kind(self, subject: Subject) -> ServerKind | None:
        """Return what serves a model without Triton; None where Triton does."""
        ...

    def shows_engine_time(self, subject: Subject) -> bool:
        """Return whether an engine's row carries its time, instead of hiding it in a gap between stages."""
        ...

    def hides_time(self, subject: Subject) -> bool:
        """Return whether the model may go on after its row has ended: an engine, a decoupled model, own threads."""
        ...

    def answers_apart(self, subject: Subject) -> bool:
        """Return whether the model is known to answer from threads of its own, after its row has ended."""
        ...


class WindowLru:
    """The evidence that was made or woken last: only so much of it keeps its window. For use by many threads."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._evidence: OrderedDict[ref[WindowEvidence], None] = OrderedDict()

    def note(self, one: WindowEvidence) -> None:
        """Take up evidence that has its window now; let the oldest rest where that is one too many."""
        with self._lock:
            self._evidence[ref(one, self._gone)] = None
            oldest = self._evidence.popitem(last=False)[0]() if len(self._evidence) > self._most else None
        if oldest is not None:
            oldest.evict()

    def _gone(self, one: ref[WindowEvidence]) -> None:
        self._evidence.pop(one, None)  # without the lock: this may be called anywhere, while it is held too


class WindowEvidence:
    """Evidence from a window of raw records."""

    def __init__(
        self, window: Window, again: Callable[[], Window] | None = None, awake: WindowLru | None = None
    ) -> None:
        """Begin with a window.

        Args:
            window: what was read.
            again: puts the same window together again; None where it is kept as long as the evidence.
            awake: called when there is a window, which it may release; None for nobody.

        """
        self._again, self._reported = again, awake
        self._subjects: dict[Scope, Sequence[Subject]] = {}
        self._coverage: Coverage | None = None
        self._cut: set[str] = set()
        self._made: EvidenceCache | None = None
        self._wake(window)

    @property
    def window(self) -> Window:
        """What was read."""
        return self._kept().window

    def evict(self) -> None:
        """Let go of the window and of all readings, where they can be made again: whoever asks has them made."""
        made = self._made
        if self._again is not None and made is not None:
            self._made = None
            made.let_go()

    def _kept(self) -> EvidenceCache:
        made = self._made  # another thread may let it rest meanwhile
        if made is None:
            assert self._again is not None
            made = self._wake(self._again())
        return made

    def _wake(self, window: Window) -> EvidenceCache:
        made = self._made = EvidenceCache(window)
        if self._reported is not None:
            self._reported.note(self)
        return made

    def read(self, signal: Signal, subject: Subject, span: Span | None = None) -> Reading:
        """Return the signal's reading, computed once per subject and span."""
        made = self._kept()
        seen = made.seen(subject)
        key = signal.name if span is None or span == made.span else (signal.name, span)
        reading = seen.readings.get(key)
        if reading is None:
            reading = seen.readings[key] = signal.read(seen.view(span or made.span))
        return reading

    def subjects(self, scope: Scope) -> Sequence[Subject]:
        """Return the subjects of a kind: model versions seen in counters, ensembles, servers or GPUs."""
        if scope not in self._subjects:
            servers = self._kept().window.servers.values()
            found = [subject for server in servers for subject in self._of(server, scope)]
            if scope is not Scope.SERVER:
                self._cut |= {subject.server for subject in found[MOST_JUDGED:]}
                found = found[:MOST_JUDGED]
            self._subjects[scope] = found
        return self._subjects[scope]

    def coverage(self) -> Coverage:
        """Return which models are judged; found once."""
        if self._coverage is None:
            self._coverage = coverage(self._kept().window)
        unread = sorted({*self._coverage.unread, *self._cut})
        return self._coverage._replace(unread=tuple(unread))

    def _judged(self, server: ServerWindow) -> list[ModelKey]:
        judged = self.coverage().judged
        return (
            server.keys_seen() if judged is None else [key for key in server.keys_seen() if key in judged[server.name]]
        )

    def graph(self, server: str) -> DeploymentGraph:
        """Return the server's ensembles."""
        return self._kept().graphs[server]

    def config(self, subject: Subject) -> ModelConfig | None:
        """Return the configuration last read."""
        return self.window.servers[subject.server].configs.get(subject.model or subject.ensemble or "")

    def config_file(self, subject: Subject) -> str | None:
        """Return the repository's text for this model, as recorded or as given."""
        return self.window.servers[subject.server].repository.get(f"{subject.model}/config.pbtxt")

    def model_control(self, server: str) -> str:
        """Return what the server's log says, or its page where another server starts it."""
        if any(is_enclosed(page.layout) for _, _, page in self.window.servers[server].snapshots[-1:]):
            return ENCLOSED
        return self.window.servers[server].options.get("model_control_mode", "").removeprefix("MODE_").lower()

    def service_time(self, subject: Subject) -> ServiceTime | None:
        """Return the fit over the whole window."""
        return service_time(self._whole(subject))

    def refused(self, server: str) -> Mapping[str, str]:
        """Return the entries of the server's bodies that could not be read."""
        return self._kept().window.servers[server].refused

    def changes(self, server: str) -> Sequence[ServerChange]:
        """Return the server's changes, found once."""
        made = self._kept()
        if server not in made.changes:
            made.changes[server] = changes(made.window.servers[server])
        return made.changes[server]

    def outages(self, subject: Subject) -> Sequence[Outage]:
        """Return the whole window's."""
        return [one for one in all_outages(self._whole(subject)) if one.model == (subject.model or "")]

    def unanswered(self, server: str) -> Sequence[Unanswered]:
        """Return the whole window's."""
        return self._kept().window.servers[server].unanswered()

    def moments(self, server: str) -> Sequence[float]:
        """Return the times of the source that was read more often."""
        reads = self.window.servers[server].reads
        return sorted(at for at, _ in max(reads[METRICS], reads[STATISTICS], key=len))

    def paths(self, subject: Subject) -> Sequence[tuple[TracedRequest, Path]]:
        """Return the whole window's."""
        return paths(self._whole(subject))

    def calls(self, subject: Subject) -> Sequence[TracedRequest]:
        """Return the whole window's."""
        return requests_of(self._whole(subject))

    def inner_calls(self, server: str) -> Mapping[str, InnerCalls]:
        """Return the whole window's."""
        return inner_calls(self._whole(Subject(server=server)))

    def span_counts(self) -> SpanCounts:
        """Return the whole window's."""
        return self.window.traces.counts

    def is_engine(self, subject: Subject) -> bool:
        """Return whether the row is an engine's, found once."""
        made, key = self._kept(), (subject.server, subject.model or subject.ensemble)
        if key not in made.engines:
            made.engines[key] = is_engine(self._whole(subject))
        return made.engines[key]

    def server_kind(self, subject: Subject) -> ServerKind | None:
        """Return what the newest page shows."""
        return kind_serving(self._whole(subject))

    def engine_history(self, subject: Subject) -> EngineHistory:
        """Return what an engine counted from page to page of the whole window."""
        return engine_history(self._whole(subject))

    def shows_engine_time(self, subject: Subject) -> bool:
        """Return whether an engine's row carries its time."""
        return shows_its_time(self._whole(subject))

    def hides_time(self, subject: Subject) -> bool:
        """Return whether the row may end before the request does."""
        return hides_its_time(self._whole(subject))

    def answers_apart(self, subject: Subject) -> bool:
        """Return whether the row surely ends before the request does."""
        return answers_apart(self._whole(subject))

    def _whole(self, subject: Subject) -> ModelView:
        made = self._kept()
        return made.seen(subject).view(made.span)

    def _of(self, server: ServerWindow, scope: Scope) -> list[Subject]:
        ensembles = self.graph(server.name).ensembles
        match scope:
            case Scope.SERVER:
                return [Subject(server=server.name)]
            case Scope.ENSEMBLE:
                busy = {model for model, _ in self._judged(server)}
                judged = (name for name in ensembles if name in busy or not server.keys_of(name))
                return [Subject(server=server.name, ensemble=name) for name in judged]
            case Scope.MODEL:
                keys = [key for key in self._judged(server) if not self._is_ensemble(server, key[0])]
                return [Subject(server=server.name, model=model, version=version) for model, version in keys]
            case Scope.ENTRY:
                return self._entries(server)
            case Scope.LISTED:
                away = {one.model for one in all_outages(self._whole(Subject(server=server.name)))}
                listed = {entry.name for _, entries in server.index[-1:] for entry in entries}
                logged = {event.model for event in server.log}
                folders = {path.split("/")[0] for path in server.repository if "/" in path}
                names = dict.fromkeys([*sorted(away), *sorted(listed), *sorted(logged | folders)])
                few = sorted(islice(names, MOST_MODELS))
                return [Subject(server=server.name, model=model or None) for model in few]
            case Scope.GPU:
                cards = self._whole(Subject(server=server.name)).gpu_series()
                return [Subject(server=server.name, gpu=uuid) for uuid in sorted(cards)]

    def _entries(self, server: ServerWindow) -> list[Subject]:
        """Return what was called from outside: an idle ensemble's members were, if they worked."""
        graph = self.graph(server.name)
        everything = [Subject(server=server.name, ensemble=name) for name in graph.ensembles]
        busy = {
            subject.ensemble: subject
            for subject in everything
            if subject.ensemble and self.read(REQUESTS, subject).value
        }
        called = {model for name in busy for model in graph.ensembles[name].models()}
        models = {model for model, _ in self._judged(server)} - called - set(graph.ensembles)
        direct = [Subject(server=server.name, model=model) for model in sorted(models)]
        return [*(subject for name, subject in busy.items() if name not in called), *direct]

    def _is_ensemble(self, server: ServerWindow, model: str) -> bool:
        config = server.configs.get(model)
        return config is not None and config.platform == names.ENSEMBLE_PLATFORM


__all__ = ["METRICS", "STATISTICS", "Evidence", "Span", "WindowEvidence", "WindowLru"]
