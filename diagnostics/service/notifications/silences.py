"""Silences in the Alertmanagers of the settings, for what people know of."""

from __future__ import annotations

from diagnostics.diagnosis.incident import Incident
from diagnostics.errors import CollectError
from diagnostics.settings.tree import AlertmanagerSettings
from exporters.sinks.alertmanager import SILENCES, silence
from exporters.sinks.posting import DeliveryFailure, Poster
from exporters.sources.access import SourceOptions, secret_of


def access_of(settings: AlertmanagerSettings) -> SourceOptions:
    """Return how the Alertmanagers are asked.

    Raises:
        UsageError: a file that the settings name cannot be used.

    """
    return SourceOptions(
        timeout=settings.timeout,
        bearer_token=secret_of(settings.bearer_token_file, "bearer token"),
        basic=secret_of(settings.basic_auth_file, "user and password"),
        ca_file=settings.ca_file,
    )


class Silencer:
    """Posts silences; for any thread. Alertmanagers of one cluster know of a silence twice, which does no harm."""

    def __init__(self, settings: AlertmanagerSettings) -> None:
        self._settings = settings

    @property
    def on(self) -> bool:
        """Whether there is an Alertmanager."""
        return bool(self._settings.urls)

    def silence(self, incident: Incident, *, who: str, why: str, start: float, end: float) -> None:
        """Silence the alerts of an incident between two Unix seconds, in every Alertmanager.

        Raises:
            CollectError: an Alertmanager did not take it; others may have.

        """
        body = silence(incident, who=who, why=why, start=start, end=end)
        for url in dict.fromkeys(url.rstrip("/") for url in self._settings.urls):
            try:
                Poster(f"{url}{SILENCES}", access_of(self._settings), "alertmanager.urls").post(body)
            except DeliveryFailure as failure:
                raise CollectError(f"did not take the silence: {failure}", where=url) from None
