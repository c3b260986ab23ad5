"""Reads the events of objectives out of a service's database, and changes nothing in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection, create_engine
from sqlalchemy.exc import SQLAlchemyError

from diagnostics.cli.service_settings import loaded_from
from diagnostics.diagnosis.incident import Incident
from diagnostics.errors import CollectError
from diagnostics.settings.tree import HistorySettings
from diagnostics.slo.bins import Bins
from diagnostics.slo.slo import Slo
from diagnostics.store import slo_events
from diagnostics.store.database import FILE, reason_of, url_of
from exporters.sources.access import read_secret


def history_settings(directory: Path | None, config_file: Path | None) -> HistorySettings:
    """Return where a history is, as given or as the settings say.

    Raises:
        UsageError: the settings cannot be used.

    """
    found = loaded_from(config_file).settings.history if config_file is not None else HistorySettings()
    return found if directory is None else found.model_copy(update={"directory": directory})


def events_of(settings: HistorySettings, slo: Slo, since: float, deployment: str | None) -> list[Bins]:
    """Return an objective's events since Unix second `since`; nothing where none were counted.

    Raises:
        CollectError: the database cannot be read.

    """
    with _reading(settings) as connection:
        return list(slo_events.read_bins(connection, slo, since, deployment).values()) if connection else []


def incidents_of(settings: HistorySettings, since: float) -> Sequence[Incident]:
    """Return the incidents since Unix second `since`; nothing where there is no database.

    Raises:
        CollectError: the database cannot be read.

    """
    with _reading(settings) as connection:
        return slo_events.incidents_since(connection, since) if connection else ()


@contextmanager
def _reading(settings: HistorySettings) -> Iterator[Connection | None]:
    file = settings.directory / FILE
    if not settings.database and not file.exists():
        yield None
        return
    secret = settings.database_password_file
    password = read_secret(secret, "database's password") if secret else None
    url = url_of(settings, password)
    where = url.render_as_string(hide_password=True)
    engine = create_engine(url if settings.database else f"sqlite:///file:{file}?mode=ro&uri=true")
    try:
        with engine.connect() as connection:
            yield connection
    except SQLAlchemyError as error:
        raise CollectError(f"the history cannot be read: {reason_of(error)}", where=where) from None
    finally:
        engine.dispose()
