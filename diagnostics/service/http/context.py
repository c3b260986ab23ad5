"""What every route may use."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from diagnostics.service.attention import Attention
from diagnostics.service.fleet import FleetBoard
from diagnostics.service.otlp_intake import OtlpIntake
from diagnostics.service.own.metrics import OwnMetrics
from diagnostics.service.service import Service
from diagnostics.service.slo_keeper import SloKeeper
from diagnostics.settings.tree import Settings
from diagnostics.store.reader import HistoryReader


@dataclass(frozen=True, slots=True, kw_only=True)
class WebContext:
    """Given to each module's `router`.

    Attributes:
        service: what is shown.
        history: answers questions about the past; None where nothing is remembered.
        settings: as of the start; those of the last reload are `service.settings`.
        metrics: the service's own.
        clock: Unix seconds.
        intake: takes spans; None where none are received.
        objectives: counts what objectives are about; None where there are none.
        attention: what people entered.
        fleet: how all deployments stand; None for those of this process alone.

    """

    service: Service
    history: HistoryReader | None
    settings: Settings
    metrics: OwnMetrics
    clock: Callable[[], float] = time.time
    intake: OtlpIntake | None = None
    objectives: SloKeeper | None = None
    attention: Attention = field(default_factory=Attention)
    fleet: FleetBoard | None = None
