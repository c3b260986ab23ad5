"""Servers that a URL lists: Prometheus' `http_sd`."""

from __future__ import annotations

from diagnostics.errors import CollectError, MalformedBody
from diagnostics.wire.json_body import json_value
from exporters.sources.access import SourceOptions
from exporters.sources.address import safe
from exporters.sources.http import HttpReader, Obstacle, ReadFailure
from exporters.sources.target_list import TargetList, parse_targets

MOST_BYTES = 8 * 2**20
"""Of an answer: 10,000 targets with ten labels each are about 5 MB (ours)."""


class HttpTargets:
    """A URL that is asked again and again. Redirects are not followed, as they would take the credentials along."""

    def __init__(self, url: str, options: SourceOptions, *, scheme: str, refresh: float) -> None:
        self._where = safe(url)
        self.name = f"http {self._where}"
        self.refresh = refresh
        self._url, self._scheme, self._options = url, scheme, options

    def find(self) -> TargetList:
        """Return what the URL lists now.

        Raises:
            CollectError: there is no answer, or no list.

        """
        groups = read_json(self._url, self._options, self._where)
        return parse_targets(groups, self._where, self._scheme)


def read_json(url: str, options: SourceOptions, where: str) -> object:
    """Return the decoded answer of a URL.

    Args:
        url: what is read.
        options: how; `max_body` bounds the answer.
        where: how messages call it.

    Raises:
        CollectError: there is no answer, or it is not JSON.

    """
    try:
        return json_value(HttpReader(options).read("GET", url, accept="application/json"))
    except ReadFailure as failure:
        hint = options.when_denied if failure.obstacle is Obstacle.DENIED else ""
        raise CollectError(failure.reason, where=where, hint=hint) from None
    except ValueError:
        raise MalformedBody("its answer is not JSON", where=where) from None
