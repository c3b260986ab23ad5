"""The points, drawn from a seed: a chat ensemble of five stages, with what varies in each group."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from tests.benchmark.deployment import Deployment, EngineSpec, StageSpec
from tests.prediction.plan import DISPATCH_SECONDS, Load, Pattern, Point

SEED = 20
Settings = Mapping[str, Mapping[str, object]]
NAMES = ("preprocessing", "embedder", "safety", "generator", "postprocessing")
CLIENT = "load"


def points(seed: int = SEED) -> list[Point]:
    """Return all points on which stages sleep, as while a GPU computes."""
    return [point for number, made in enumerate(_GROUPS) for point in made(random.Random(f"{seed}/{number}"))]


def _chat(chance: random.Random, *heavy: StageSpec, side: int | None = None) -> Deployment:
    """Return a deployment of light stages, but for those given, whose largest batch all stages take."""
    most = max((spec.max_batch for spec in heavy), default=1)
    given = {spec.name: replace(spec, max_batch=most) for spec in heavy}
    light = {name: StageSpec(name=name, base_ms=chance.uniform(0.8, 4.0), max_batch=most) for name in NAMES}
    return Deployment(ensemble="chat", stages=tuple({**light, **given}[name] for name in NAMES), side=side)


def _rate(spec: StageSpec, busy: float, instances: int = 1) -> float:
    """Return the rate at which instances that take one request at a time are so busy."""
    return busy * instances / (spec.seconds() + DISPATCH_SECONDS)


def group(name: str, base: Deployment, load: Load, *variants: tuple[str, Settings, str]) -> Iterator[Point]:
    """Yield a point for each variant: its name, its settings by stage (of `load`: by field), and its source."""
    for variant, settings, source in variants:
        deployment, its_load = base, load
        for target, values in settings.items():
            if target == CLIENT:
                its_load = replace(load, **values)  # type: ignore[arg-type]
            elif deployment.engine is not None and target == deployment.engine.name:
                deployment = replace(deployment, engine=replace(deployment.engine, **values))  # type: ignore[arg-type]
            else:
                deployment = deployment.changed(target, **values)
        yield Point(group=name, name=variant, deployment=deployment, load=its_load, source=source)


def _instances(chance: random.Random) -> Iterator[Point]:
    safety = StageSpec(name="safety", base_ms=chance.uniform(30, 40))
    yield from group(
        "instances",
        _chat(chance, safety),
        Load(rate=_rate(safety, 0.93)),
        ("one", {}, "two"),
        ("two", {"safety": {"instances": 2}}, "one"),
        ("three", {"safety": {"instances": 3}}, "one"),
        ("four", {"safety": {"instances": 4}}, "two"),
    )


def _rates(chance: random.Random) -> Iterator[Point]:
    safety = StageSpec(name="safety", base_ms=chance.uniform(24, 30), instances=2)
    shares = {"20": "50", "50": "85", "70": "50", "85": "50", "95": "50"}
    yield from group(
        "rates",
        _chat(chance, safety),
        Load(),
        *((f"busy{s}", {CLIENT: {"rate": _rate(safety, int(s) / 100, 2)}}, f"busy{of}") for s, of in shares.items()),
    )


def _windows(chance: random.Random) -> Iterator[Point]:
    embedder = StageSpec(
        name="embedder", base_ms=chance.uniform(11, 14), per_item_ms=1.5, instances=2, max_batch=8, delay_us=0
    )
    yield from group(
        "windows",
        _chat(chance, embedder),
        Load(rate=_rate(embedder, 0.6, 2)),
        ("none", {}, "us2000"),
        ("us500", {"embedder": {"delay_us": 500}}, "none"),
        ("us2000", {"embedder": {"delay_us": 2000}}, "none"),
        ("us10000", {"embedder": {"delay_us": 10000}}, "us2000"),
    )


def _preferred(chance: random.Random) -> Iterator[Point]:
    safety = StageSpec(
        name="safety", base_ms=chance.uniform(16, 20), per_item_ms=2.0, instances=2, max_batch=16, delay_us=4000
    )
    yield from group(
        "preferred",
        _chat(chance, safety),
        Load(rate=_rate(safety, 0.85, 2)),
        ("none", {}, "four"),
        ("four", {"safety": {"preferred": (4,)}}, "none"),
        ("two-eight", {"safety": {"preferred": (2, 8)}}, "none"),
    )


def _branches(chance: random.Random) -> Iterator[Point]:
    embedder = StageSpec(name="embedder", base_ms=chance.uniform(22, 26), jitter=0.2)
    safety = StageSpec(name="safety", base_ms=chance.uniform(24, 28), jitter=0.2)
    yield from group(
        "branches",
        _chat(chance, embedder, safety, side=1),
        Load(rate=_rate(safety, 0.8)),
        ("one-one", {}, "two-two"),
        ("two-one", {"embedder": {"instances": 2}}, "one-one"),
        ("one-two", {"safety": {"instances": 2}}, "one-one"),
        ("two-two", {"embedder": {"instances": 2}, "safety": {"instances": 2}}, "one-one"),
    )


def _closed(chance: random.Random) -> Iterator[Point]:
    generator = StageSpec(name="generator", base_ms=chance.uniform(36, 44), jitter=0.2, instances=2)
    yield from group(
        "closed",
        _chat(chance, generator),
        Load(pattern=Pattern.CLOSED, clients=4),
        ("two", {}, "four"),
        ("one", {"generator": {"instances": 1}}, "two"),
        ("three", {"generator": {"instances": 3}}, "two"),
        ("four", {"generator": {"instances": 4}}, "two"),
        ("two-clients", {CLIENT: {"clients": 2}}, "two"),
    )


def _bursts(chance: random.Random) -> Iterator[Point]:
    safety = StageSpec(name="safety", base_ms=chance.uniform(14, 18))
    yield from group(
        "bursts",
        _chat(chance, safety),
        Load(pattern=Pattern.BURSTS, burst=5, rate=_rate(safety, 0.7)),
        ("one", {}, "two"),
        ("two", {"safety": {"instances": 2}}, "one"),
        ("four", {"safety": {"instances": 4}}, "one"),
        ("two-more", {"safety": {"instances": 2}, CLIENT: {"rate": _rate(safety, 1.4)}}, "one"),
    )


def _limits(chance: random.Random) -> Iterator[Point]:
    safety = StageSpec(name="safety", base_ms=chance.uniform(18, 22), queue_limit=20)
    yield from group(
        "limits",
        _chat(chance, safety),
        Load(rate=_rate(safety, 0.65)),
        ("twenty", {}, "twenty-two"),
        ("three", {"safety": {"queue_limit": 3}}, "twenty"),
        ("none", {"safety": {"queue_limit": 0, "delay_us": 0}}, "twenty"),
        ("twenty-two", {"safety": {"instances": 2}}, "twenty"),
    )


def _engine(chance: random.Random) -> Iterator[Point]:
    chat = _chat(chance, StageSpec(name="safety", base_ms=chance.uniform(5, 8), instances=2))
    engine = EngineSpec(name="tensorrt_llm", slots=8, decode_ms=chance.uniform(3.6, 4.2))
    stages = tuple(stage for stage in chat.stages if stage.name != "generator")
    yield from group(
        "engine",
        replace(chat, stages=stages, engine=engine, engine_after=2),
        Load(rate=chance.uniform(17, 19)),
        ("eight", {}, "sixteen"),
        ("four", {"tensorrt_llm": {"slots": 4}}, "eight"),
        ("sixteen", {"tensorrt_llm": {"slots": 16}}, "eight"),
        ("eight-slower", {CLIENT: {"rate": 10.0}}, "eight"),
    )


def _downstream(chance: random.Random) -> Iterator[Point]:
    embedder = StageSpec(name="embedder", base_ms=chance.uniform(28, 32))
    safety = StageSpec(name="safety", base_ms=embedder.base_ms * 0.88)
    yield from group(
        "downstream",
        _chat(chance, embedder, safety),
        Load(rate=_rate(embedder, 0.92)),
        ("one-one", {}, "two-one"),
        ("two-one", {"embedder": {"instances": 2}}, "one-one"),
        ("one-two", {"safety": {"instances": 2}}, "one-one"),
        ("two-two", {"embedder": {"instances": 2}, "safety": {"instances": 2}}, "one-one"),
    )


def _jitter(chance: random.Random) -> Iterator[Point]:
    safety = StageSpec(name="safety", base_ms=chance.uniform(22, 26), jitter=0.9)
    yield from group(
        "jitter",
        _chat(chance, safety),
        Load(rate=_rate(safety, 0.8)),
        ("one", {}, "one-half"),
        ("one-half", {CLIENT: {"rate": _rate(safety, 0.4)}}, "one"),
        ("two", {"safety": {"instances": 2}}, "one"),
        ("two-more", {"safety": {"instances": 2}, CLIENT: {"rate": _rate(safety, 0.9, 2)}}, "one"),
    )


def _batching(chance: random.Random) -> Iterator[Point]:
    embedder = StageSpec(name="embedder", base_ms=chance.uniform(16, 20), per_item_ms=1.2, max_batch=8, delay_us=0)
    yield from group(
        "batching",
        _chat(chance, embedder),
        Load(rate=_rate(embedder, 0.8)),
        ("on", {}, "off"),
        ("off", {"embedder": {"delay_us": None}}, "on"),
        ("off-two", {"embedder": {"delay_us": None, "instances": 2}}, "on"),
        ("on-more", {CLIENT: {"rate": _rate(embedder, 1.6)}}, "on"),
    )


def _several(chance: random.Random) -> Iterator[Point]:
    safety = StageSpec(name="safety", base_ms=chance.uniform(15, 18), per_item_ms=1.5, max_batch=8, delay_us=1000)
    generator = StageSpec(name="generator", base_ms=chance.uniform(24, 28), instances=2, max_batch=8, jitter=0.3)
    faster, more = {"rate": _rate(safety, 1.3)}, {"instances": 3}
    yield from group(
        "several",
        _chat(chance, safety, generator),
        Load(rate=_rate(safety, 0.65)),
        ("before", {}, "all"),
        ("all", {"safety": {"instances": 2, "delay_us": 0}, "generator": more, CLIENT: faster}, "before"),
        ("faster", {"generator": more, CLIENT: faster}, "before"),
        ("windows", {"safety": {"delay_us": 5000}, "generator": {"delay_us": 0}}, "before"),
    )


_GROUPS: tuple[Callable[[random.Random], Iterator[Point]], ...] = (
    *(_instances, _rates, _windows, _preferred, _branches, _closed, _bursts),
    *(_limits, _engine, _downstream, _jitter, _batching, _several),
)
