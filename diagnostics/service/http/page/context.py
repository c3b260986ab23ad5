"""What the page needs of the service."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from prometheus_client import Counter

from diagnostics.diagnosis.explanation import Explanation
from diagnostics.diagnosis.incident import Incident
from diagnostics.diagnosis.objective import Objective
from diagnostics.service.state import Board


class Judged(Protocol):
    """A deployment, as far as the page asks it."""

    @property
    def objective(self) -> Objective | None: ...


class Watching(Protocol):
    """The service: what it knows now, and the deployments it watches."""

    @property
    def board(self) -> Board: ...
    @property
    def deployments(self) -> Mapping[str, Judged]: ...


class Counted(Protocol):
    """What the service counts of its own troubles."""

    @property
    def dropped(self) -> Counter: ...
    @property
    def errors(self) -> Counter: ...


class Point(Protocol):
    """A signal's readings in one step that begins at Unix second `at`."""

    @property
    def at(self) -> float: ...
    @property
    def mean(self) -> float: ...


class Story(Protocol):
    """An incident with its consequences."""

    @property
    def incident(self) -> Incident: ...
    @property
    def consequences(self) -> Sequence[Incident]: ...


class Past(Protocol):
    """What is asked of the past. Raises `sqlalchemy.exc.SQLAlchemyError` while the database is away."""

    def incidents(
        self, *, deployment: str | None = None, since: float | None = None, until: float | None = None, limit: int = 100
    ) -> Sequence[Incident]: ...
    def incident(self, identity: str) -> Story | None: ...
    def signals(
        self, deployment: str, signal: str, start: float, end: float, *, server: str, model: str, step: float
    ) -> Sequence[Point]: ...
    def explain_at(
        self, deployment: str, at: float, since: float = 300.0, objective: Objective | None = None
    ) -> Explanation: ...


class PageContext(Protocol):
    """Everything behind the page; `history` None where nothing is remembered."""

    @property
    def service(self) -> Watching: ...
    @property
    def history(self) -> Past | None: ...
    @property
    def metrics(self) -> Counted: ...
