"""Servers that a Prometheus scrapes already: the active targets of some of its jobs (`/api/v1/targets`)."""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import urlsplit

from diagnostics.errors import MalformedBody
from diagnostics.wire.json_body import JsonFields
from exporters.sources.access import SourceOptions
from exporters.sources.http_targets import read_json
from exporters.sources.prometheus_api import parse_prometheus
from exporters.sources.target_list import TargetList, checked_labels, targets_of

MOST_BYTES = 64 * 2**20
"""Of an answer: a target with its labels before and after relabelling is about 2 kB, and large ones have 20,000."""


class PrometheusTargets:
    """A Prometheus that is asked again and again what it scrapes."""

    def __init__(self, url: str, jobs: Collection[str], options: SourceOptions, *, refresh: float) -> None:
        """Take up the address.

        Raises:
            UsageError: it is not one of a Prometheus.

        """
        self._base = parse_prometheus(url).base
        self.name = f"prometheus {self._base} {' '.join(jobs)}"
        self.refresh = refresh
        self._jobs, self._options = frozenset(jobs), options

    def find(self) -> TargetList:
        """Return the active targets of the jobs, up or not.

        Raises:
            CollectError: there is no answer, or no list.

        """
        value = read_json(f"{self._base}/api/v1/targets?state=active", self._options, self._base)
        found = TargetList()
        if not isinstance(value, dict) or not isinstance(value.get("data"), dict):
            raise MalformedBody("its answer is not a list of targets", where=self._base)
        try:
            listed = JsonFields(value["data"], "the targets").children("active_targets")
        except MalformedBody as error:
            raise MalformedBody(error.what, where=self._base) from None
        for number, one in enumerate(listed, 1):
            try:
                labels = checked_labels(one.text_map("labels"))
                if labels.get("job") in self._jobs:
                    found.add(targets_of([_address(one.text("scrape_url"))], labels, self._base, "http"))
            except MalformedBody as error:
                found.refuse(f"{self._base}: target {number}", error.what)
        return found


def _address(scraped: str) -> str:
    """Return the URL of a page without its parameters, which are Prometheus' own and may be secrets."""
    try:
        return urlsplit(scraped)._replace(query="", fragment="").geturl()
    except ValueError:
        return scraped
