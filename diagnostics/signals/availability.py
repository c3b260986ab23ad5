"""Which models of the repository serve, which could not be loaded, and who wants them."""

from __future__ import annotations

from collections.abc import Callable

from diagnostics.signals.reading import Missing, Reading
from diagnostics.signals.signal import Signal
from diagnostics.signals.subject import Scope
from diagnostics.units import Unit
from diagnostics.window.lifecycle import READY, UNAVAILABLE, UNLOADED_REASON, Happened
from diagnostics.window.view import View

INDEX = "index"
# What Triton gives as an ensemble's reason when it is a member that is not there (core, model repository manager).
OF_A_MEMBER = ("models that are not available", "depends on")
_FIX = "let the tool reach the HTTP or gRPC port: POST v2/repository/index"


def _newest(count: Callable[[View], float]) -> Callable[[View], Reading]:
    def read(view: View) -> Reading:
        if not view.server.index:
            return Reading.unknown(Missing.NOT_EXPORTED, Unit.COUNT, INDEX)
        return Reading.of(count(view), Unit.COUNT, INDEX)

    return read


def _ready(view: View) -> float:
    return float(sum(1 for entry in view.server.index[-1][1] if entry.name == view.model and entry.state == READY))


def _failed(view: View) -> float:
    """Versions whose last load failed by the newest index, or one if the log says so of the last attempt."""
    entries = [entry for entry in view.server.index[-1][1] if entry.name == view.model]
    failed = sum(1 for e in entries if e.state == UNAVAILABLE and e.reason not in ("", UNLOADED_REASON))
    attempts = [c for c in view.changes() if c.kind in _ATTEMPTS and c.at <= view.end]
    return float(failed or (bool(attempts) and attempts[-1].kind is Happened.LOAD_FAILED))


_ATTEMPTS = (Happened.LOADED, Happened.RELOADED, Happened.LOAD_FAILED)


def _wanted(view: View) -> float:
    """1 when an ensemble calls the model, or it was counted in the window, or clients ask for it; else 0."""
    called = any(step.model == view.model for config in view.server.configs.values() for step in config.ensemble_steps)
    asked = any(r.model == view.model and view.start <= r.at <= view.end for r in view.window.clients)
    return float(called or asked or bool(view.keys()))


def _signal(name: str, doc: str, count: Callable[[View], float]) -> Signal:
    return Signal(name=name, unit=Unit.COUNT, scope=Scope.LISTED, doc=doc, readers=(_newest(count),), fix=_FIX)


FAILED_VERSIONS = _signal("failed_versions", "Versions of the model whose last load failed.", _failed)
READY_VERSIONS = _signal("ready_versions", "Versions of the model that serve, by the newest index.", _ready)
MODEL_WANTED = _signal("model_wanted", "1 when an ensemble, a client or earlier traffic asks for the model.", _wanted)
