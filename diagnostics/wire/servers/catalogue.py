"""Finds the kinds of servers: every module of this folder that declares one. No registry."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, lru_cache

from diagnostics.pages import declaring
from diagnostics.wire import servers
from diagnostics.wire.exposition import SeriesLayout
from diagnostics.wire.servers.kind import ServerKind

_SHOWN = 3


@cache
def server_kinds() -> tuple[ServerKind, ...]:
    """Return all kinds. Those that wrap others come first, as a Dynamo worker does its engine."""
    found = [module.KIND for module in declaring(servers, "KIND").values()]
    return tuple(sorted(found, key=lambda kind: kind.is_read))


@cache
def stored_names() -> tuple[str, ...]:
    """Return patterns of the series by which a store shows servers: what is read of each kind, and a mark of others."""
    return tuple(sorted(pattern for kind in server_kinds() for pattern in kind.stored))


@cache
def own_labels() -> frozenset[str]:
    """Return the labels by which a server itself splits its series."""
    return frozenset(label for kind in server_kinds() for label in kind.labels)


@cache
def token_names(what: str) -> tuple[str, ...]:
    """Return the series, or the families of histograms, by which any kind reports `what` of an engine's tokens."""
    found = (name for kind in server_kinds() for name, measured in kind.tokens_seen.items() if measured == what)
    return tuple(dict.fromkeys(found))


@cache
def other_pages() -> tuple[str, ...]:
    """Return the paths of pages other than `/metrics`."""
    return tuple(sorted({kind.page[kind.page.index("/") :] for kind in server_kinds()} - {"/metrics"}))


@lru_cache(maxsize=256)  # the layouts of a few pages: every model asks
def kinds_of(layout: SeriesLayout) -> tuple[ServerKind, ...]:
    """Return the kinds that a page shows; several where one server wraps another."""
    return tuple(kind for kind in server_kinds() if kind.shown_on(layout))


def serving_kind(layout: SeriesLayout, model: str | None) -> ServerKind | None:
    """Return the kind that counts a model's requests in its own words; None for Triton's models.

    Without a model, it is the kind that counts requests, whether the page has any or not. Inside another server, it is
    that one which is restarted.
    """
    kinds = kinds_of(layout)
    found = next((kind for kind in kinds if kind.requests and (model is None or kind.served_on(layout, model))), None)
    outer = next((kind for kind in kinds if kind.encloses and kind is not found), None)
    return found if found is None or outer is None else _enclosed(found.name, outer.name)


@cache
def _enclosed(name: str, outer: str) -> ServerKind:
    found = {kind.name: kind for kind in server_kinds()}
    return replace(found[name], restarts=found[outer].restarted, page=found[outer].page)


def readable(layout: SeriesLayout) -> bool:
    """Return whether something of the page is read: a kind with readers shows on it."""
    return any(kind.is_read for kind in kinds_of(layout))


def is_enclosed(layout: SeriesLayout) -> bool:
    """Return whether a page is of a Triton inside another server, which opens none of its ports."""
    found = kinds_of(layout)
    return any(kind.has_api for kind in found) and any(kind.encloses for kind in found)


def named(layout: SeriesLayout) -> str:
    """Return what a page is of, in words: the kinds with their versions, or the families of an unknown program."""
    kinds = kinds_of(layout)
    if kinds:
        return " with ".join(f"{kind.name} {kind.version_on(layout)}".strip() for kind in kinds)
    families = sorted(layout.types or layout.by_name)
    shown = ", ".join(families[:_SHOWN]) + (", …" if len(families) > _SHOWN else "")
    return f"an unknown program ({shown})"


def instead_of(layout: SeriesLayout) -> str:
    """Return what to name instead of a page that is not read; empty where nothing is known of it."""
    return next((kind.instead for kind in kinds_of(layout) if kind.instead), "")
