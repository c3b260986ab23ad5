"""Which models of the repository serve, which could not be loaded, and who wants them."""

from __future__ import annotations

from collections.abc import Callable

from diagnostics.signals.signal import Missing, Reading, Scope, Signal
from diagnostics.units import Unit
from diagnostics.window.lifecycle import LOG, READY, UNAVAILABLE, UNLOADED_REASON, Happened
from diagnostics.window.normalize import ModelKey
from diagnostics.window.view import METRICS, STATISTICS, ModelView
from diagnostics.wire.json_body import decimal
from diagnostics.wire.server import IndexEntry

INDEX, REPOSITORY = "index", "repository"
# What Triton gives as an ensemble's reason when it is a member that is not there (core, model repository manager).
OF_A_MEMBER = ("models that are not available", "depends on")
_FIX = "let the tool reach the HTTP or gRPC port: POST v2/repository/index"


def _newest(count: Callable[[ModelView], float]) -> Callable[[ModelView], Reading]:
    def read(view: ModelView) -> Reading:
        if not view.server.index and not view.server.log:
            return Reading.unknown(Missing.NOT_EXPORTED, Unit.COUNT, INDEX)
        return Reading.of(count(view), Unit.COUNT, INDEX if view.server.index else LOG)

    return read


def _entries(view: ModelView) -> list[IndexEntry]:
    """Return the model's entries in the newest index; none where the index was not read."""
    return [entry for _, entries in view.server.index[-1:] for entry in entries if entry.name == view.model]


def _ready(view: ModelView) -> float:
    """Versions that the newest index calls READY; without the index, those that counters list at the last read."""
    if view.server.index:
        return float(sum(1 for entry in _entries(view) if entry.state == READY))
    last = max((at for reads in view.server.reads.values() for at, _ in reads), default=None)
    return float(sum(1 for key in view.server.keys_of(view.model or "") if last in _last_listed(view, key)))


def _last_listed(view: ModelView, key: ModelKey) -> set[float]:
    tables = (table for source in (METRICS, STATISTICS) if (table := view.server.tables[source].get(key)))
    return {table.last.at for table in tables if table.last is not None}


def _never_loaded(view: ModelView) -> Reading:
    """Return 1 when the newest index lists the model without a state, or a folder of the repository is listed nowhere.

    Triton lists every folder of its repository, and gives a state to what it has once tried to load as a version: the
    others were never loaded, or refused before they had a version (core, model repository manager; tried on 2.51).
    """
    entries = _entries(view)
    if entries:
        return Reading.of(float(not any(entry.state for entry in entries)), Unit.COUNT, INDEX)
    # Which folders were loaded is known from what the others counted.
    if not view.server.repository or not view.server.keys_seen():
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.COUNT, INDEX)
    in_repository = any(path.startswith(f"{view.model}/") for path in view.server.repository)
    return Reading.of(float(in_repository and not view.keys()), Unit.COUNT, REPOSITORY)


def _failed(view: ModelView) -> float:
    """Versions whose last load failed by the newest index, or one if the log says so of the last attempt.

    One that failed before a later version was loaded is over: that one serves in its place.
    """
    entries = _entries(view)
    serves = max((_number(e.version) for e in entries if e.state == READY), default=-1)
    broken = [e for e in entries if e.state == UNAVAILABLE and e.reason not in ("", UNLOADED_REASON)]
    failed = sum(1 for e in broken if _number(e.version) > serves)
    attempts = [
        change
        for change in view.changes()
        if change.kind in _ATTEMPTS and change.at <= view.end
        if change.source != INDEX or change.kind is not Happened.LOAD_FAILED or _number(change.version) > serves
    ]
    return float(failed or (bool(attempts) and attempts[-1].kind is Happened.LOAD_FAILED))


def _number(version: str) -> int:
    return decimal(version) or 0


_ATTEMPTS = (Happened.LOADED, Happened.RELOADED, Happened.LOAD_FAILED)


def _wanted(view: ModelView) -> float:
    """1 when an ensemble calls the model, or it was counted in the window, or clients ask for it; else 0."""
    called = any(step.model == view.model for config in view.server.configs.values() for step in config.ensemble_steps)
    requested = any(r.model == view.model and view.start <= r.at <= view.end for r in view.window.clients)
    return float(called or requested or bool(view.keys()))


def _signal(name: str, doc: str, count: Callable[[ModelView], float]) -> Signal:
    return Signal(name=name, unit=Unit.COUNT, scope=Scope.LISTED, doc=doc, readers=(_newest(count),), fix=_FIX)


FAILED_VERSIONS = _signal("failed_versions", "Versions of the model whose last load failed.", _failed)
NEVER_LOADED = Signal(
    name="never_loaded",
    unit=Unit.COUNT,
    scope=Scope.LISTED,
    doc="1 when the model is in the repository and has never been loaded.",
    readers=(_never_loaded,),
    fix=_FIX,
)
READY_VERSIONS = _signal("ready_versions", "Versions of the model that serve, by the newest index.", _ready)
MODEL_WANTED = _signal("model_wanted", "1 when an ensemble, a client or earlier traffic asks for the model.", _wanted)
