"""`diag bench`: controlled load on one or two targets, with a diagnosis of every point."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from diagnostics.bench.block import parse_limits
from diagnostics.bench.report import BenchReport, parse_report
from diagnostics.cli.interrupting import Settle, interruptible
from diagnostics.cli.options import DURATION, Duration, is_given, source_options
from diagnostics.cli.output import output_option, show
from diagnostics.cli.sources import looks_like_a_path, warn
from diagnostics.errors import EXIT_COLLECT, EXIT_INTERRUPTED, EXIT_OK, UsageError, not_installed
from diagnostics.render.bench.document import bench_document
from diagnostics.render.bench.phrases import MEASURE_WORDS, PROTOCOL_WORDS
from exporters.sources.access import SourceOptions
from exporters.sources.repository import read_given

_EPILOG = """\b
Examples:
  diag bench triton:8000 --model ensemble --concurrency 1,2,4,8,16
  diag bench grpc://triton:8001 --rate 5,10,20,40 --slo 'latency < 500ms'
  diag bench triton:8000 --protocol generate --streaming --slo 'ttft < 200ms'
  diag bench http://vllm:8000/v1 --protocol chat --streaming --rate 1,2,4
  diag bench a:8000 b:8000 --concurrency 1,4,16,64 --output json > ab.json
  diag bench ab.json --output html > ab.html
  diag bench a.json b.json

\b
TARGET is a server, or a report that --output json wrote: reports are shown
again, and two are compared. Two are compared only where the same was asked of
both: contents, lengths, loop, measured seconds. Latency counts from when a
request was due. While load runs the server's counters are read, so that each
point has its diagnosis. It is real load: keep it off what users depend on.
Exit: 0 measured, 2 usage (or not comparable), 3 a target did not answer, or no
request, or died (what was measured until then is shown), 130 interrupted.
"""


# Generic since Click 8.4 only.
class Loads(click.ParamType):  # type: ignore[type-arg]
    """Loads such as `1,2,4,8`, ascending and each once."""

    name = "loads"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[float, ...]:
        if isinstance(value, tuple):
            return value
        try:
            return tuple(sorted({float(part) for part in str(value).split(",")}))
        except ValueError:
            self.fail(f"{value!r} is no list of loads such as 1,2,4,8", param, ctx)


class _Wait(Duration):
    """A duration that may be none."""

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        return 0.0 if str(value) in ("0", "0s") else super().convert(value, param, ctx)


@click.command(epilog=_EPILOG, short_help="Measure an endpoint under load, and diagnose each point.")
@click.argument("targets", nargs=-1, required=True, metavar="TARGET [OTHER]")
@click.option("--model", metavar="NAME", help="What to ask; the server's one model or ensemble otherwise.")
@click.option(
    "--protocol",
    type=click.Choice(list(PROTOCOL_WORDS)),
    help="KServe, Triton's generate endpoint, or OpenAI's API.",
)
@click.option("--streaming", is_flag=True, help="Take responses one by one: time to first token (all but http).")
@click.option("--concurrency", type=Loads(), help="Closed loop: clients that each wait for their answer. [1,2,4,8]")
@click.option("--rate", type=Loads(), help="Open loop: requests per second, arriving as a Poisson process.")
@click.option("--duration", type=DURATION, default="10s", show_default=True, help="Measured time of a block.")
@click.option(
    "--warm-up", type=_Wait(), default="2s", show_default=True, help="Load before it that counts for nothing."
)
@click.option("--blocks", type=int, default=3, show_default=True, help="How often each load is measured.")
@click.option("--seed", type=int, default=1, show_default=True, help="Of inputs, arrivals and order.")
@click.option(
    "--length",
    type=click.IntRange(1, 100_000),
    default=32,
    show_default=True,
    help="Words of a prompt, or the size of variable dimensions.",
)
@click.option(
    "--max-tokens",
    type=click.IntRange(1, 100_000),
    default=64,
    show_default=True,
    help="Least and most tokens of an answer, where the model takes them.",
)
@click.option(
    "--input",
    "input_file",
    type=click.Path(path_type=Path),
    help="Requests instead of random ones: a JSON object of inputs a line.",
)
@click.option(
    "--tokens-from",
    metavar="OUTPUT",
    help="The output that counts a response's tokens. [num_output_tokens or completion_tokens]",
)
@click.option(
    "--tokenizer",
    type=click.Path(path_type=Path, exists=True),
    help="The model's tokenizer.json, to count tokens with.",
)
@click.option(
    "--slo",
    "slos",
    multiple=True,
    metavar="LIMIT",
    help="What a good request keeps, as in 'latency < 500ms'; ttft, tpot.",
)
@click.option(
    "--by",
    type=click.Choice(list(MEASURE_WORDS)),
    default="mean",
    show_default=True,
    help="What two targets are compared by.",
)
@click.option(
    "--request-timeout", type=DURATION, default="30s", show_default=True, help="After which a request has failed."
)
@click.option("--capture", type=click.Path(path_type=Path), help="Keep what was read meanwhile, as diag record does.")
@output_option()
@click.option(
    "--png", type=click.Path(path_type=Path, dir_okay=False), help="Draw latency over load and over throughput."
)
@source_options
@click.pass_context
def command(
    ctx: click.Context, /, targets: tuple[str, ...], by: str, output: str, png: Path | None, **given: Any
) -> None:
    """Measure an endpoint under controlled load, with a diagnosis of every point."""
    if len(targets) > 2:
        raise UsageError("one target is measured, or two are compared", where="TARGET [OTHER]")
    if png is not None:
        _drawing()
        _refuse_place(png)
    with interruptible() as settle:
        report = _report(ctx, targets, given, settle)
        _show_somewhere(report, by, output)
        if png is not None:
            _drawing()(report, png, by)
        if report.ended and output != "text":
            warn(f"ended early: {report.ended}; the report has the results until then")
    ctx.exit(_exit_code(report))


def _refuse_place(file: Path) -> None:
    """Refuse, before anything is measured, a file that cannot be written after it."""
    if not file.parent.is_dir():
        raise UsageError("is in no folder", where=str(file), hint="make the folder first")


def _report(ctx: click.Context, targets: Sequence[str], given: dict[str, Any], settle: Settle) -> BenchReport:
    kept = [looks_like_a_path(target) or target.endswith(".json") for target in targets]
    if not any(kept):
        return _measure(targets, given, settle)
    if not all(kept):
        hint = "measure one with --output json first, then compare the two reports"
        raise UsageError("a report and a server cannot be compared at once", where="TARGET [OTHER]", hint=hint)
    _refuse_twice(targets)
    _refuse_measuring(ctx)
    reports = [parse_report(read_given(Path(target)), target) for target in targets]
    return reports[0] if len(reports) == 1 else joined(reports[0], reports[1], targets)


def _refuse_measuring(ctx: click.Context) -> None:
    """Refuse options of a measurement, which would change nothing of one that was kept."""
    for option in ctx.command.params:
        if is_given(ctx, option.name or "") and option.name not in _SHOWING:
            hint = "leave it out, or name a server"
            raise UsageError(
                "is for a measurement, and a report is of one that was made", where=option.opts[0], hint=hint
            )


def _refuse_twice(targets: Sequence[str]) -> None:
    if len(targets) == 2 and Path(targets[0]).resolve() == Path(targets[1]).resolve():
        raise UsageError("is the same report twice", where=targets[1], hint="give another to compare it with")


def joined(one: BenchReport, other: BenchReport, names: Sequence[str]) -> BenchReport:
    """Return one report of two tests' targets.

    Raises:
        UsageError: a report has no single target, or the same was not asked of both.

    """
    from dataclasses import replace

    from diagnostics.bench.crossover import unmatched

    for report, name in zip((one, other), names, strict=True):
        if len(report.targets) != 1:
            raise UsageError("holds two targets already", where=name, hint="show it by itself")
    _refuse_unmatched(unmatched(one, other), f"{names[0]} and {names[1]}")
    ended = "; ".join(filter(None, (one.ended, other.ended)))
    return replace(one, blocks=min(one.blocks, other.blocks), targets=(*one.targets, *other.targets), ended=ended)


def _refuse_unmatched(found: Sequence[str], where: str) -> None:
    if found:
        hint = "measure both with the same options"
        raise UsageError(f"not comparable, as these differ: {'; '.join(found)}", where=where, hint=hint)


def _measure(targets: Sequence[str], given: dict[str, Any], settle: Settle) -> BenchReport:
    try:
        from diagnostics.cli.benching import BenchRequest, measure
        from diagnostics.loadgen.sweep import Plan
        from diagnostics.loadgen.target import TargetOptions
    except ModuleNotFoundError as error:
        raise not_installed(error, "bench", where="sending load") from error

    if given["concurrency"] and given["rate"]:
        raise UsageError("a loop is closed or open", where="--concurrency, --rate", hint="give one of them")
    closed = given["rate"] is None
    plan = Plan(
        loads=(given["concurrency"] or (1.0, 2.0, 4.0, 8.0)) if closed else given["rate"],
        closed=closed,
        seconds=given["duration"],
        warm_up=given["warm_up"],
        blocks=given["blocks"],
        seed=given["seed"],
        request_timeout=given["request_timeout"],
    )
    wanted = TargetOptions(
        input=given["input_file"],
        timeout=plan.request_timeout,
        **{name: given[name] for name in _WANTED},
    )
    options: SourceOptions = given["options"]
    requested = BenchRequest(plan=plan, wanted=wanted, limits=parse_limits(given["slos"]), capture=given["capture"])
    return measure(targets, requested, options, warn, settle)


_SHOWING = ("targets", "by", "output", "png")
_WANTED = ("model", "protocol", "streaming", "length", "max_tokens", "tokens_from", "tokenizer", "seed")


def _drawing() -> Any:
    from diagnostics.render.bench.png import draw

    return draw


def _show_somewhere(report: BenchReport, by: str, output: str) -> None:
    """Show the report; on standard error where standard output takes none: a full disk shall not cost a test."""
    try:
        _show(report, by, output, err=False)
    except BrokenPipeError:
        raise
    except OSError:
        _show(report, by, output, err=True)
        raise


def _show(report: BenchReport, by: str, output: str, *, err: bool) -> None:
    def data() -> bytes:
        from diagnostics.render.bench.json import bench_json

        return bench_json(report, by)

    def page() -> str:
        from diagnostics.render.bench.html import bench_html

        return bench_html(report, by)

    show(output, lambda: bench_document(report, by), data, page, err=err)


def _exit_code(report: BenchReport) -> int:
    if report.ended == "interrupted":
        return EXIT_INTERRUPTED
    return EXIT_COLLECT if report.ended or report.silent else EXIT_OK
