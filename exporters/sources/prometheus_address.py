"""`prometheus+http://host:9090/prefix?selector={job="triton"}`, taken apart."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from urllib.parse import parse_qs, urlsplit

from diagnostics.errors import UsageError
from exporters.sources.address import parse_address, safe

PREFIX = "prometheus+"
_FORM = 'give prometheus+http://host:9090 or prometheus+https://host/prefix?selector={job="triton"}'
_STRING = r'(?:"(?:[^"\\]|\\.)*+"|\'(?:[^\'\\]|\\.)*+\'|`[^`]*`)'
_MATCHER = rf"\s*+[a-zA-Z_][a-zA-Z0-9_]*\s*+(?:=~|!~|!=|=)\s*+{_STRING}\s*+"
_ONE = re.compile(_MATCHER)
_LABEL = re.compile(r"\w+")
_OF_A_SCRAPE = frozenset({"job", "instance", "pod", "namespace", "container", "service", "endpoint", "node"})
_MATCHERS = rf"{_MATCHER}(?:,{_MATCHER})*+,?\s*+"
_SELECTOR = re.compile(rf"\s*+(?:\{{(?P<inside>{_MATCHERS})\}}|(?P<bare>{_MATCHERS}))\s*+")


@dataclass(frozen=True, slots=True, kw_only=True)
class PrometheusAddress:
    """Where a store is, and of what in it is asked.

    Attributes:
        base: the URL before `/api/v1`, without credentials.
        matchers: what a series must match besides its name, as in `job="triton"`; none for everything.
        user: `name:password` of the URL, or None.

    """

    base: str
    matchers: tuple[str, ...] = ()
    user: str | None = field(default=None, repr=False)

    def __str__(self) -> str:
        return f"{PREFIX}{self.base}"

    def selector(self, *matchers: str) -> str:
        """Return a selector of these matchers and the address's own."""
        return "{" + ",".join((*matchers, *self.matchers)) + "}"

    def beside(self) -> PrometheusAddress:
        """Return the address of what else is stored of the same place: without matchers of one scrape's labels."""
        return replace(self, matchers=tuple(one for one in self.matchers if _LABEL.findall(one)[0] not in _OF_A_SCRAPE))


def matcher(label: str, value: str, *, sign: str = "=") -> str:
    """Return a matcher of a label in PromQL, as `model="safety"`, whatever is in the value."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'{label}{sign}"{escaped}"'


def is_prometheus(source: str) -> bool:
    """Return whether a source is written as a Prometheus-compatible store."""
    return source.startswith(PREFIX)


def parse_prometheus(source: str) -> PrometheusAddress:
    """Return the parts of a store's address.

    Raises:
        UsageError: it is not one; the message shows no password.

    """
    text, question, query = source.removeprefix(PREFIX).partition("?")
    if not text.startswith(("http://", "https://")):
        raise UsageError("is no address of a Prometheus", where=safe(source), hint=_FORM)
    try:
        address, fragment = parse_address(text), urlsplit(text).fragment
    except UsageError as error:
        raise UsageError(error.what, where=safe(source), hint=_FORM) from None
    if fragment:
        raise UsageError("holds a #", where=safe(source), hint=_FORM)
    base = f"{address.scheme}://{address.netloc()}{address.path.removesuffix('/api/v1')}"
    matchers = _matchers(query, base) if question else ()
    return PrometheusAddress(base=base, matchers=matchers, user=address.user)


def _matchers(query: str, where: str) -> tuple[str, ...]:
    # A + in a regular expression is meant as one: these are not forms.
    asked = parse_qs(query.replace("+", "%2B"), keep_blank_values=True)
    if set(asked) != {"selector"} or len(asked["selector"]) != 1:
        raise UsageError("takes ?selector={…} and nothing else", where=where, hint=_FORM)
    written = asked["selector"][0]
    match = _SELECTOR.fullmatch(written)
    if match is None:
        raise UsageError(f"cannot read the selector {written[:80]!r}", where=where, hint='write {job="triton"}')
    return tuple(one.strip() for one in _ONE.findall(match["inside"] or match["bare"]))
