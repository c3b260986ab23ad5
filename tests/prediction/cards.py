"""The points whose stages compute on GPUs: products of matrices, which processes on one card share in turn.

A product of the large ones fills the card: one of 2048 is 17 GFLOP, which an H200 does in about 30 µs. The small ones
take less of the card than their launch takes of a processor. How long a product takes is stated, so that equal settings
are equal work.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tests.benchmark.deployment import Deployment, EngineSpec, StageSpec
from tests.prediction.groups import CLIENT, NAMES, Settings, group
from tests.prediction.plan import Load, Pattern, Point

_LARGE = {"gpu_size": 2048, "gpu_product_us": 30.0}
_SMALL = {"gpu_size": 512, "gpu_product_us": 7.0}
Variant = tuple[str, Settings, str]


def card_points() -> list[Point]:
    """Return all points on which stages compute on one GPU or on two."""
    groups = (_measured_products(), *_compute_bound(), *_launch_bound(), _clients(), _engine())
    one = [replace(point, cards=1) for points in groups for point in points]
    return [*one, *(replace(point, cards=2) for points in (_spread(), _apart()) for point in points)]


def _chat(*heavy: StageSpec, engine: EngineSpec | None = None) -> Deployment:
    """Return a deployment of light stages that sleep, but for those given, whose largest batch all stages take."""
    most = max(spec.max_batch for spec in heavy)
    light = {
        name: StageSpec(name=name, base_ms=1.5, max_batch=most)
        for name in NAMES
        if engine is None or name != "generator"
    }
    stages = {**light, **{spec.name: spec for spec in heavy}}
    return Deployment(ensemble="chat", stages=tuple(stages.values()), engine=engine, engine_after=2)


def _stage(name: str, milliseconds: float, **values: object) -> StageSpec:
    settings = {"jitter": 0.1, **_LARGE, **values}
    return StageSpec(name=name, base_ms=milliseconds, mode="gpu", **settings)  # type: ignore[arg-type]


def _settings(**counts: int) -> Settings:
    return {name: {"instances": count} for name, count in counts.items()}


def _measured_products() -> Iterator[Point]:
    """Yield the points whose products were measured as each model was loaded, so that reloads changed their work."""
    stages = {name: StageSpec(name=name, base_ms=2.0) for name in NAMES}
    for name, milliseconds in (("embedder", 6.0), ("safety", 9.0)):
        stages[name] = StageSpec(name=name, base_ms=milliseconds, mode="gpu", jitter=0.1)
    yield from group(
        "gpu",
        Deployment(ensemble="chat", stages=tuple(stages.values())),
        Load(rate=70.0),
        ("one", {}, "two"),
        ("two", _settings(safety=2), "one"),
        ("three", _settings(safety=3), "one"),
        ("both-two", _settings(safety=2, embedder=2), "one"),
        ("one-slower", {CLIENT: {"rate": 40.0}}, "one"),
        ("two-slower", {**_settings(safety=2), CLIENT: {"rate": 40.0}}, "one"),
    )


def _compute_bound() -> Iterator[Iterator[Point]]:
    both = _chat(_stage("embedder", 4.0), _stage("safety", 7.0))
    yield group("gpu-instances", both, Load(rate=60.0), *_INSTANCES)
    yield group(
        "gpu-rates",
        both.changed("safety", instances=2),
        Load(rate=40.0),
        ("per40", {}, "per60"),
        ("per60", {CLIENT: {"rate": 60.0}}, "per40"),
        ("per72", {CLIENT: {"rate": 72.0}}, "per40"),
    )
    embedder = _stage("embedder", 4.0, per_item_ms=1.0, max_batch=8, delay_us=0)
    yield group(
        "gpu-windows",
        _chat(embedder, _stage("safety", 3.0, max_batch=8)),
        Load(rate=80.0),
        ("none", {}, "us5000"),
        ("us5000", {"embedder": {"delay_us": 5000}}, "none"),
        ("us10000", {"embedder": {"delay_us": 10000}}, "none"),
        ("off", {"embedder": {"delay_us": None}}, "none"),
    )


def _launch_bound() -> Iterator[Iterator[Point]]:
    small = _chat(_stage("embedder", 4.0, **_SMALL), _stage("safety", 7.0, **_SMALL))
    yield group("gpu-launches", small, Load(rate=80.0), *_INSTANCES[:3])
    mixed = _chat(_stage("embedder", 5.0), _stage("safety", 7.0, **_SMALL))
    yield group("gpu-mixed", mixed, Load(rate=70.0), *_INSTANCES[:3])


_INSTANCES: tuple[Variant, ...] = (
    ("one", {}, "two"),
    ("two", _settings(safety=2), "one"),
    ("both-two", _settings(safety=2, embedder=2), "one"),
    ("three", _settings(safety=3), "one"),
)


def _clients() -> Iterator[Point]:
    yield from group(
        "gpu-clients",
        _chat(_stage("safety", 8.0)),
        Load(pattern=Pattern.CLOSED, clients=4),
        ("one", {}, "two"),
        ("two", _settings(safety=2), "one"),
        ("two-clients", {CLIENT: {"clients": 2}}, "one"),
    )


def _engine() -> Iterator[Point]:
    """Yield an engine whose iterations compute: about two of its requests at once, of three blocks each, often more."""
    engine = EngineSpec(name="tensorrt_llm", slots=8, decode_ms=1.5, **_LARGE)  # type: ignore[arg-type]
    yield from group(
        "gpu-engine",
        _chat(_stage("embedder", 2.0), engine=engine),
        Load(rate=32.0),
        ("eight", {}, "three"),
        ("three", {"tensorrt_llm": {"slots": 3}}, "eight"),
        ("kv-three", {"tensorrt_llm": {"kv_tokens": 288}}, "eight"),
        ("kv-four", {"tensorrt_llm": {"kv_tokens": 384}}, "eight"),
    )


def _spread() -> Iterator[Point]:
    """Yield the points whose stages have instances on both cards; a count is of each card."""
    both = _chat(_stage("embedder", 4.0, gpus=(0, 1)), _stage("safety", 7.0, gpus=(0, 1)))
    yield from group(
        "gpu-cards",
        both,
        Load(rate=90.0),
        ("one", {}, "two"),
        ("two", _settings(safety=2), "one"),
        ("both-two", _settings(safety=2, embedder=2), "one"),
        ("one-slower", {CLIENT: {"rate": 50.0}}, "one"),
    )


def _apart() -> Iterator[Point]:
    """Yield the points whose two stages have a card each."""
    both = _chat(_stage("embedder", 5.0), _stage("safety", 8.0, gpus=(1,)))
    yield from group(
        "gpu-apart",
        both,
        Load(rate=80.0),
        ("one", {}, "two"),
        ("two", _settings(safety=2), "one"),
    )
