"""Captures, format 1: recorded incidents as raw bodies, in a folder or an archive, read as scrapes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from diagnostics.errors import CaptureError, MalformedBody
from diagnostics.wire.archive import Damage, PackedTooWell, files
from diagnostics.wire.capture_layout import MANIFEST, scrape_at
from diagnostics.wire.capture_writer import FORMAT, CaptureWriter
from diagnostics.wire.json_body import JsonFields, decode_object, excerpt, moment, number
from diagnostics.wire.records import Scrape

__all__ = ["Capture", "CaptureWriter", "Manifest", "open_capture"]

_MANIFEST_BYTES = 2**20
"""Names of ten thousand servers; it is read before anything else is known of a file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What a capture says of itself.

    Attributes:
        format: always 1.
        name: the capture's name.
        window_from: Unix seconds of the recording's start; None when it does not say.
        window_to: of its end; None when it does not say, as in a recording that was killed, or that has its
            end written last and was not read to there yet.
        scrape_interval: seconds between scrapes.
        targets: names of the servers.
        trace_rate: one of so many requests is traced.
        run: which run of a service recorded it; steady times of one run can be compared.
        steady_from: the steady clock's seconds at `window_from`; None when it was not kept.

    """

    format: int
    name: str
    window_from: float | None = None
    window_to: float | None = None
    scrape_interval: float | None = None
    targets: tuple[str, ...] = ()
    trace_rate: float | None = None
    run: str = ""
    steady_from: float | None = None


class Capture:
    """A capture that was found to be one.

    Attributes:
        path: where it lies.
        manifest: what it says of itself; brought up to date when `scrapes` has come to its end.
        damage: why the last `scrapes` ended before the capture's end; None when it was whole.

    """

    def __init__(self, path: Path, manifest: Manifest, top: str) -> None:
        self.path, self.manifest, self._top = path, manifest, top
        self.damage: str | None = None

    def scrapes(self) -> Iterator[Scrape]:
        """Yield what was recorded, streaming once through the capture, in any order.

        Configuration, repository, server metadata, log and client records are of `window_from`.
        In a damaged archive whatever came whole is yielded, and `damage` says what was not.

        Raises:
            CaptureError: the capture breaks a bound, or can no longer be read.

        """
        self.damage, read = None, 0
        try:
            for path, body in files(self.path, self._is_inside):
                read += 1
                inside = path.removeprefix(self._top)
                if inside == MANIFEST:
                    self.manifest = _manifest(body, self.path)
                elif scrape := scrape_at(inside, body, self.manifest.window_from or 0.0):
                    yield scrape
        except Damage as damage:
            whole = "1 file" if read == 1 else f"{read} files"
            how = "left out" if isinstance(damage, PackedTooWell) else "damaged"
            self.damage = f"{how} after {whole} ({damage}); what came before is used"

    def _is_inside(self, path: str) -> bool:
        return path.startswith(self._top)


def open_capture(path: Path) -> Capture:
    """Return the capture at `path`: a folder or an archive, known by content, wrapped in one folder or not.

    Raises:
        CaptureError: there is nothing, it is no capture, of another format, or damaged before its manifest.

    """
    if not path.exists():
        hint = "name a capture, or a server as in triton:8000"
        raise CaptureError("no such file or folder", where=str(path), hint=hint)
    try:
        for inside, body in files(path, _may_be_manifest, _MANIFEST_BYTES, depth=1):
            return Capture(path, _manifest(body, path), inside.removesuffix(MANIFEST))
    except Damage as damage:
        raise CaptureError(
            f"damaged before its {MANIFEST} ({damage})", where=str(path), hint="copy or record it anew"
        ) from damage
    hint = "diag record makes one; a model repository is for --repository, a history for --history"
    raise CaptureError(f"no capture: it holds no {MANIFEST}", where=str(path), hint=hint)


def _may_be_manifest(path: str) -> bool:
    """Return whether this is the manifest at the top, or inside one wrapping folder."""
    return path == MANIFEST or (path.count("/") == 1 and path.endswith(f"/{MANIFEST}"))


def _manifest(body: bytes, path: Path) -> Manifest:
    try:
        fields = decode_object(body, MANIFEST)
        version = fields.integer("format", -1)
        if version != FORMAT:
            _refuse_format(fields, path)
        return Manifest(
            format=version,
            name=fields.text("name", path.name),
            window_from=moment(fields.raw("window_from")),
            window_to=moment(fields.raw("window_to")),
            scrape_interval=number(fields.raw("scrape_interval_s")),
            targets=_targets(fields.raw("targets")),
            trace_rate=number(fields.raw("trace_rate")),
            run=fields.text("run", ""),
            steady_from=number(fields.raw("steady_from")),
        )
    except MalformedBody as error:
        raise CaptureError(f"no capture: {error.what}", where=str(path)) from error


def _refuse_format(fields: JsonFields, path: Path) -> NoReturn:
    found = excerpt(str(fields.raw("format"))) if fields.has("format") else "none"
    raise CaptureError(
        f"capture format {found}, but this version reads format {FORMAT}",
        where=str(path),
        hint="update triton-diagnostics or record anew",
    )


def _targets(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        return ()
    names = (target.get("name") if isinstance(target, dict) else target for target in value)
    return tuple(name for name in names if isinstance(name, str))
