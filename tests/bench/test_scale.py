"""What large windows cost: many models, long times, many GPUs; as multiples of parsing their bodies in the same run."""

from __future__ import annotations

import json
import random
import statistics
import time
import tracemalloc
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from diagnostics.window.window import window_of
from diagnostics.wire.exposition import ExpositionReader
from diagnostics.wire.gpu import parse_nvml
from diagnostics.wire.records import BodyKind, Scrape
from diagnostics.wire.server import parse_statistics
from tests.bench.conftest import Goals
from tests.builders import START, Alter, Counts, Rows, Stage, SyntheticTriton, chain, explained, model_config

ROUNDS = 3
MEMBERS = 4
QUANTILES = (0.5, 0.9, 0.95, 0.99, 0.999)
PHASES = ("request", "queue", "compute_input", "compute_infer", "compute_output")


def _stages(models: int) -> tuple[Stage, ...]:
    """Return so many model versions, a fifth of them ensembles of four members; one member's instance is busy."""
    draw, found = random.Random(models), list[Stage]()
    for number in range(models // (MEMBERS + 1)):
        rate = draw.uniform(5.0, 40.0)
        members = [_member(f"m{number}_{position}", rate, draw) for position in range(MEMBERS)]
        if number == 0:
            members[1] = replace(members[1], execution=0.95 / rate, queue=0.2, batches={1: 1.0})
        config = chain(f"e{number}", *(member.name for member in members))
        spent = sum(member.queue + member.seconds_of(1) for member in members)
        found += [*members, Stage(f"e{number}", rate=rate, overhead=spent + 0.001, config=config)]
    return tuple(found)


def _member(name: str, rate: float, draw: random.Random) -> Stage:
    config = model_config(name, max_batch=8, batching={"max_queue_delay_microseconds": 1000})
    execution = draw.uniform(0.05, 0.4) / rate
    return Stage(
        name,
        rate=rate,
        execution={1: execution, 2: execution * 1.2, 4: execution * 1.5},
        queue=draw.uniform(0.0002, 0.002),
        input=0.0001,
        output=0.0001,
        batches={1: 0.6, 2: 0.3, 4: 0.1},
        config=config,
    )


def _uneven(stages: Sequence[Stage], interval: float) -> Alter:
    """Return an alteration under which every ensemble's traffic varies from read to read by up to a tenth."""
    draw, worked = random.Random(1), dict.fromkeys((stage.name for stage in stages), 1000.0)

    def alter(_: int, rows: dict[tuple[str, str], Counts]) -> Rows:
        pace = [draw.uniform(0.9, 1.1) for _ in rows]
        for at, stage in enumerate(stages):
            worked[stage.name] += interval * pace[at // (MEMBERS + 1)]  # of an ensemble and its members alike
        return {(stage.name, stage.version): stage.after(worked[stage.name]) for stage in stages}

    return alter


def _summaries(stages: Sequence[Stage]) -> Callable[[int], Iterator[str]]:
    """Return the summaries' lines of a read, as `--metrics-config summary_latencies=true` adds them: all change."""

    def lines(read: int) -> Iterator[str]:
        for phase in PHASES:
            yield f"# TYPE nv_inference_{phase}_summary_us summary"
            for at, stage in enumerate(stages):
                labels = f'model="{stage.name}",version="1"'
                yield f"nv_inference_{phase}_summary_us_count{{{labels}}} {read * 300 + at}"
                yield f"nv_inference_{phase}_summary_us_sum{{{labels}}} {read * 300_000 + at}"
                for quantile in QUANTILES:
                    value = 1000 + 10_000 * quantile + (read * 7919 + at) % 97
                    yield f'nv_inference_{phase}_summary_us{{{labels},quantile="{quantile}"}} {value:.0f}'

    return lines


def _scrapes(models: int, seconds: float, interval: float, *, summaries: bool = True) -> list[Scrape]:
    stages = _stages(models)
    triton = SyntheticTriton(
        models=stages,
        interval=interval,
        alter=_uneven(stages, interval),
        extra_metrics=_summaries(stages) if summaries else lambda _: (),
    )
    return triton.scrapes(reads=round(seconds / interval) + 1)


def _gpu_bodies(seconds: int, gpus: int) -> list[Scrape]:
    """Return an NVML sample of so many cards each second, with their processes."""
    return [
        Scrape(server="", kind=BodyKind.NVML, at=START + second, mono=START + second, body=_nvml(second, gpus))
        for second in range(seconds)
    ]


def _nvml(second: int, gpus: int) -> bytes:
    cards = [
        {
            "index": index,
            "uuid": f"GPU-{index:02}",
            "name": "NVIDIA H100",
            "utilization_gpu_percent": 40 + (second * 7 + index) % 20,
            "memory_used_bytes": 40_000_000_000,
            "memory_total_bytes": 80_000_000_000,
            "power_mw": 300_000 + (second + index) % 50_000,
            "power_limit_mw": 700_000,
            "sm_clock_mhz": 1980,
            "gpm": {"graphics_util": 40.0, "sm_util": 20.0, "tensor_util": 5.0, "dram_bw_util": 10.0},
            "processes": [{"pid": 100 + index, "used_memory_bytes": 39_000_000_000, "name": "tritonserver"}],
            "process_utilization": [{"pid": 100 + index, "sm_percent": 40}],
        }
        for index in range(gpus)
    ]
    return json.dumps({"t": START + second, "gpus": cards}).encode()


def _parse(scrapes: Sequence[Scrape]) -> int:
    """Parse all metrics, statistics and GPU bodies and nothing else; return how many there were."""
    reader = ExpositionReader()
    parsers: Mapping[BodyKind, Callable[[bytes], object]] = {
        BodyKind.METRICS: reader.read,
        BodyKind.STATISTICS: parse_statistics,
        BodyKind.NVML: parse_nvml,
    }
    bodies = [(parsers[one.kind], one.body) for one in scrapes if one.kind in parsers and one.body]
    return len([parse(body) for parse, body in bodies])


def _explain(scrapes: Sequence[Scrape]) -> int:
    """Explain a window from its bodies on; return how many answers the checks gave."""
    return len(explained(window_of(scrapes)).results)


def _seconds(work: Callable[[Sequence[Scrape]], int], scrapes: Sequence[Scrape]) -> float:
    # Of the processor, not of the wall clock: the machine is shared, and neither work waits for anything.
    start = time.process_time()
    assert work(scrapes)
    return time.process_time() - start


def _hold(goals: Goals, scrapes: Sequence[Scrape], what: str, most: float) -> None:
    """Hold how many times longer explaining takes than parsing, by processor time, medians of one run."""
    _explain(scrapes)  # also imports what is imported late
    took: dict[Callable[[Sequence[Scrape]], int], list[float]] = {_parse: [], _explain: []}
    for _ in range(ROUNDS):
        for work, seconds in took.items():
            seconds.append(_seconds(work, scrapes))
    parsing, explaining = (statistics.median(seconds) for seconds in took.values())
    print(f"\n{what}: {explaining:.2f} s, {explaining / parsing:.1f}× parsing ({parsing:.2f} s)")
    goals.at_most(f"explaining {what}, times parsing", explaining / parsing, most)


def test_an_hour_of_fifty_models_is_explained_within_three_times_of_parsing_it(goals: Goals) -> None:
    _hold(goals, _scrapes(models=50, seconds=3600, interval=10), "one hour, 50 models", 3.0)


def test_two_hundred_models_and_sixteen_gpus_are_explained_within_five_times_of_parsing_them(goals: Goals) -> None:
    scrapes = _scrapes(models=200, seconds=600, interval=10) + _gpu_bodies(seconds=600, gpus=16)
    _hold(goals, scrapes, "ten minutes, 200 models, 16 GPUs at 1 Hz", 5.0)


def test_a_day_takes_memory_in_proportion_to_what_was_read(goals: Goals) -> None:
    scrapes = _scrapes(models=20, seconds=86_400, interval=60)
    bodies = sum(len(scrape.body or b"") for scrape in scrapes)
    tracemalloc.start()
    _explain(scrapes)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    print(f"\none day, 20 models: {peak / 1e6:.0f} MB for {bodies / 1e6:.0f} MB of bodies")
    goals.at_most("memory of a day of 20 models, times its bodies", peak / bodies, 3)


def test_four_times_the_replicas_are_explained_in_little_more_than_four_times_as_long(goals: Goals) -> None:
    one, took = _scrapes(models=5, seconds=300, interval=15, summaries=False), []
    for servers in (30, 120):
        scrapes = [replace(scrape, server=f"triton-{number}") for number in range(servers) for scrape in one]
        _explain(scrapes)
        took.append(min(_seconds(_explain, scrapes) for _ in range(ROUNDS)))
    print(f"\n30 and 120 replicas: {took[0]:.2f} and {took[1]:.2f} s")
    goals.at_most("four times the replicas, times as long", took[1] / took[0], 6)


def test_explaining_takes_time_in_proportion_to_the_reads(goals: Goals) -> None:
    took = []
    for reads in (300, 600):
        scrapes = _scrapes(models=10, seconds=reads * 60, interval=60)
        _explain(scrapes)  # imports, and leaves no garbage of another window to collect
        took.append(min(_seconds(_explain, scrapes) for _ in range(ROUNDS)))
    print(f"\n300 and 600 reads: {took[0]:.2f} and {took[1]:.2f} s")
    goals.at_most("twice the reads, times as long", took[1] / took[0], 3)
