"""`diag record`: keeps what a server says for a while, as a capture that every other verb reads."""

from __future__ import annotations

import secrets
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import click

from diagnostics.cli.options import DURATION, source_options
from diagnostics.cli.sources import looks_like_a_path, opened
from diagnostics.errors import EXIT_COLLECT, EXIT_INTERRUPTED, EXIT_OK, UsageError
from diagnostics.units import Unit
from diagnostics.wire.capture import CaptureWriter
from diagnostics.wire.records import BodyKind, Scrape
from diagnostics.wire.redact import Anonymizer, redact
from exporters.sources.access import SourceOptions
from exporters.sources.dcgm import dcgm_page
from exporters.sources.repository import repository_scrapes
from exporters.sources.schedule import CLOCK, Source, collect
from exporters.sources.triton import TritonServer, discover_all

_EPILOG = """\b
Examples:
  diag record http://triton:8000 -o slow.tar.xz
  diag record a:8000 b:8000 --for 5m --interval 5s -o fleet.tar.xz
  diag record triton:8002/metrics --anonymize -o share.tar.xz
  diag record triton:8000 --repository ./models -o slow.tar.xz

\b
SOURCE is any endpoint of a Triton: the others are found from it. Secrets
are always redacted. Ctrl-C ends early, with a valid capture.
Exit: 0 recorded, 2 usage, 3 a server could not be read, 130 interrupted.
"""
_SUFFIXES = (".tar.xz", ".tar.gz", ".txz", ".tgz", ".tar")
Change = Callable[[Scrape], Scrape]


@click.command(epilog=_EPILOG)
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default="capture.tar.xz",
    show_default=True,
    help="A .tar.xz, .tar.gz or .tar, or a new folder.",
)
@click.option("--for", "seconds", type=DURATION, default="60s", show_default=True, help="How long.")
@click.option("--interval", type=DURATION, default="2s", show_default=True, help="Between two rounds.")
@click.option("--anonymize", is_flag=True, help="Replace model, host and user names, drop free text.")
@click.option("--force", is_flag=True, help="Replace the output if it exists.")
@click.option(
    "--repository",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="The model repository, to keep its config.pbtxt files too.",
)
@source_options
@click.pass_context
def command(
    ctx: click.Context,
    sources: tuple[str, ...],
    output: Path,
    seconds: float,
    interval: float,
    anonymize: bool,
    force: bool,
    repository: Path | None,
    options: SourceOptions,
) -> None:
    """Record what a server says into a capture."""
    _check(sources, seconds, interval, options)
    _check_output(output, force)
    servers, unfound = discover_all(sources, options)
    for line in (*unfound, *(note for server in servers for note in server.notes)):
        click.echo(f"diag: {line}", err=True)
    if not servers:
        ctx.exit(EXIT_COLLECT)
    changes = (redact, Anonymizer(secrets.token_bytes(16)).apply) if anonymize else (redact,)
    recording = _Recording(output, servers, seconds, interval, changes, force, dcgm_page(options))
    recording.run(repository)
    recording.report()
    ctx.exit(recording.exit_code if recording.exit_code or not unfound else EXIT_COLLECT)


def _check(sources: Sequence[str], seconds: float, interval: float, options: SourceOptions) -> None:
    for source in sources:
        if looks_like_a_path(source):
            raise UsageError(
                "is a path, and a server is recorded", where=source, hint="name its URL, as in triton:8000"
            )
    if seconds < interval:
        hint = "two rounds are the least that shows a rate"
        raise UsageError("the recording would be shorter than its interval", where="--for", hint=hint)
    if len(set(sources)) > 1 and (options.metrics_url or options.grpc_url):
        raise UsageError("fits one SOURCE only", where="--metrics-url, --grpc-url", hint="record each by itself")


def _check_output(output: Path, force: bool) -> None:
    """Refuse at once what the writer would refuse after the servers were sought."""
    if output.is_dir() and any(output.iterdir()):
        raise UsageError("is a folder with other files in it", where=str(output), hint="choose another name")
    if output.is_file() and not force:
        raise UsageError("exists already", where=str(output), hint="choose another name, or --force")


@dataclass(slots=True, kw_only=True)
class _Tally:
    """What came and what did not."""

    rounds: int = 0
    bodies: int = 0
    failures: Counter[tuple[str, BodyKind, str]] = field(default_factory=Counter)
    reads: Counter[tuple[str, BodyKind]] = field(default_factory=Counter)

    def add(self, scrape: Scrape) -> None:
        self.reads[scrape.server, scrape.kind] += 1
        if scrape.body is not None:
            self.bodies += 1
        else:
            self.failures[scrape.server, scrape.kind, scrape.error or "unknown"] += 1

    def lines(self, known: Collection[str]) -> Iterator[str]:
        for (server, kind, reason), count in sorted(self.failures.items()):
            if reason not in known:
                yield f"{server} {kind}: {reason} ({count} of {self.reads[server, kind]} reads)"


class _Recording:
    def __init__(
        self,
        output: Path,
        servers: Sequence[TritonServer],
        seconds: float,
        interval: float,
        changes: Sequence[Change],
        force: bool,
        beside: Sequence[Source] = (),
    ) -> None:
        self.output, self.servers, self.seconds, self.interval = output, servers, seconds, interval
        self.changes, self.force, self.beside = changes, force, beside
        self.tally = _Tally()
        self.stopped = threading.Event()
        self.first: float | None = None
        self.last = self.stepped = 0.0

    def run(self, repository: Path | None) -> None:
        """Record until the time is up or a signal comes; the capture is whole afterwards."""
        with ExitStack() as stack:
            stack.enter_context(_ending_early(self.stopped))
            writer = stack.enter_context(self._writer())
            sources = stack.enter_context(opened(self.servers, self.beside))
            if repository:
                for scrape in repository_scrapes(repository, [server.name for server in self.servers]):
                    writer.add(self._changed(scrape))
            show = stack.enter_context(self._progress())
            for scrape in collect(sources, self.interval, seconds=self.seconds, stop=self.stopped.is_set):
                self._keep(scrape, writer)
                show(scrape)
            writer.clock_stepped = self.stepped = CLOCK.stepped()

    def _writer(self) -> CaptureWriter:
        names = [self._public_name(server.name) for server in self.servers]
        stem = self.output.name
        for suffix in _SUFFIXES:
            stem = stem.removesuffix(suffix)
        return CaptureWriter(self.output, stem or "capture", names, self.interval, overwrite=self.force)

    def _public_name(self, server: str) -> str:
        return self._changed(Scrape(server=server, kind=BodyKind.SERVER, at=0.0, mono=0.0, body=b"{}")).server

    def _changed(self, scrape: Scrape) -> Scrape:
        for change in self.changes:
            scrape = change(scrape)
        return scrape

    def _keep(self, scrape: Scrape, writer: CaptureWriter) -> None:
        self.tally.add(scrape)
        self.first, self.last = self.first or scrape.at, max(self.last, scrape.at)
        writer.add(self._changed(scrape))

    @contextmanager
    def _progress(self) -> Iterator[Callable[[Scrape], None]]:
        what = ", ".join(server.name for server in self.servers[:3])
        more = f" and {len(self.servers) - 3} more" if len(self.servers) > 3 else ""
        click.echo(f"recording {what}{more} for {Unit.SECONDS.show(self.seconds)} (Ctrl-C ends early)", err=True)
        if not sys.stderr.isatty():
            yield lambda _: None
            return
        with click.progressbar(length=100, file=sys.stderr, show_eta=False) as bar:
            yield lambda scrape: bar.update(self._percent(scrape) - bar.pos)

    def _percent(self, scrape: Scrape) -> int:
        return min(100, round(100 * (scrape.at - (self.first or scrape.at)) / self.seconds))

    @property
    def exit_code(self) -> int:
        if not self.tally.bodies:
            return EXIT_COLLECT
        return EXIT_INTERRUPTED if self.stopped.is_set() else EXIT_OK

    def report(self) -> None:
        """Print the result on standard output, and what is missing from it on standard error."""
        size = Unit.BYTES.show(_size(self.output))
        span = Unit.SECONDS.show(self.last - (self.first or self.last))
        count = len(self.servers)
        servers = self.servers[0].name if count == 1 else f"{count} servers"
        click.echo(f"{self.output}: {servers}, {span}, {self.tally.bodies} bodies, {size}")
        if self.stepped:
            by = f"{Unit.SECONDS.show(abs(self.stepped))} {'forward' if self.stepped > 0 else 'back'}"
            click.echo(
                f"diag: this machine's clock was set {by}: times are by the clock as it was at the start", err=True
            )
        missing = [
            *self._blind_spots(),
            *self.tally.lines({spot.why for server in self.servers for spot in server.blind_spots}),
        ]
        if missing:
            click.echo("not recorded:", err=True)
        for line in missing:
            click.echo(f"  {line}", err=True)

    def _blind_spots(self) -> Iterator[str]:
        for server in self.servers:
            for spot in server.blind_spots:
                yield f"{spot.what}: {spot.why}; {spot.fix}"


@contextmanager
def _ending_early(stopped: threading.Event) -> Iterator[None]:
    """Let Ctrl-C and SIGTERM set `stopped` instead of cutting through a write."""

    def stop(*_: object) -> None:
        stopped.set()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _size(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())
