"""The load test that confirms a tuning: a script for perf_analyzer, or a configuration for Model Analyzer."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from diagnostics.diagnosis.proposal import CarriedProposal, Move, Test, TunedProposal
from diagnostics.forecast.performance import Performance
from diagnostics.forecast.target import LatencyTarget
from diagnostics.render.forecast.document import entry_name, setting_text
from diagnostics.render.plain import clean
from diagnostics.signals.signal import Subject
from diagnostics.tuning.changes import SettingValue
from diagnostics.units import Unit

# Settings that are tried: what is in effect, the answer, and what else would do.
_MOST_POINTS = 5
# A window holds some hundred requests at tens of requests per second; three of them in a row must agree.
_MEASUREMENT_MILLISECONDS = 20_000
_PERCENTILES = {None: "", 0.5: " --percentile=50", 0.95: " --percentile=95", 0.99: " --percentile=99"}


@dataclass(frozen=True, slots=True)
class _Point:
    """A setting to measure: its name, its settings, the load as a multiple, and what is predicted of it."""

    name: str
    moves: tuple[Move, ...]
    factor: float
    predicted: Performance


def confirming(found: TunedProposal | CarriedProposal, suffix: str) -> str:
    """Return the test's text: of a shell script for `.sh`, else of Model Analyzer's YAML."""
    target = found.target if isinstance(found, CarriedProposal) else found.tuning.target
    points = _carried(found) if isinstance(found, CarriedProposal) else _tuned(found)
    make = _script if suffix == ".sh" else _analyzer
    return "\n".join(make(found.on, target, points, found.test)) + "\n"


def _tuned(found: TunedProposal) -> Sequence[_Point]:
    one = found.tuning
    points = [_Point("now", (), 1.0, one.baseline)]
    if found.shown is not None and found.moves:
        points.append(_Point("answer" if one.best else "nearest", found.moves, 1.0, found.shown.performance))
    for number, (moves, other) in enumerate(zip(found.others, one.runners_up, strict=True), 2):
        points.append(_Point(f"answer-{number}", moves, 1.0, other.performance))
    return points[:_MOST_POINTS]


def _carried(found: CarriedProposal) -> Sequence[_Point]:
    pairs = zip(found.moves, found.found, strict=True)
    points = [
        _Point(f"answer-{number}", moves, 1.0 if found.closed else one.factor, one.performance)
        for number, (moves, one) in enumerate(pairs, 1)
    ]
    return points[:_MOST_POINTS]


_HEAD = """\
#!/usr/bin/env bash
# Measures what diag tune predicts, with perf_analyzer, one setting after another. Not on a server that others use.
# Usage: [TRITON=localhost:8001] [APPLY=command] bash confirm.sh [more options for perf_analyzer, as --input-data FILE]
# The settings of each point must be in effect before it: APPLY is called with MODEL.SETTING=VALUE for each of them, and
# must reload those models; without it the script asks and waits for Enter. Points list only what differs from "now".
set -eo pipefail
TRITON=${TRITON:-localhost:8001}
OPTIONS=("$@")

point() {
  local name=$1 load=$2
  shift 2
  echo "== $name: ${*:-the settings in effect when this was written}"
  if [ -n "${APPLY:-}" ]; then "$APPLY" "$@"; else read -r -p "apply them, then press Enter " _; fi"""


def _script(on: Subject, target: LatencyTarget, points: Sequence[_Point], test: Test) -> Iterator[str]:
    yield _HEAD
    yield (
        f'  perf_analyzer -m {shlex.quote(clean(entry_name(on)))} -i grpc -u "$TRITON" --async -b {test.items} "$load" '
        f"--request-distribution=poisson \\\n    --measurement-interval={_MEASUREMENT_MILLISECONDS}"
        f'{_PERCENTILES[target.quantile]} -f "$name.csv" "${{OPTIONS[@]}}"'
    )
    yield "}"
    yield ""
    for point in points:
        settings = " ".join(shlex.quote(_setting(move)) for move in point.moves)
        yield f"# predicted: {_predicted(target, point.predicted)}; the objective is {clean(target.text)}"
        yield f"point {point.name} {_load(test, point.factor)} {settings}".rstrip()


def _load(test: Test, factor: float) -> str:
    if test.rate is None:
        return f"--concurrency-range={test.clients or 1}"
    return f"--request-rate-range={test.rate * factor:.4g}"


def _setting(move: Move) -> str:
    """Return MODEL.SETTING=VALUE on one line, whatever a name holds."""
    return clean(f"{move.model}.{move.path}={_value(move.after)}")


def _value(value: SettingValue) -> str:
    """Return a value as `diag whatif --set` takes it."""
    return "none" if value is None else setting_text(value).replace(" ", "")


def _predicted(target: LatencyTarget, one: Performance) -> str:
    value = target.forecast(one)
    rate = Unit.PER_SECOND.show(one.throughput.value)
    shown = "cannot keep up" if value is None else Unit.SECONDS.show(value.value)
    return f"{target.statistic} {shown} by the server's clock, {rate} answered"


_ANALYZER = """\
# Measures what diag tune predicts, with Model Analyzer: model-analyzer profile -f THIS_FILE
# It loads the models itself, from a copy of the repository: run it on a machine like the one that serves them.
# Fill in the repository; clients' latency holds the network, which the predictions do not.
model_repository: /path/to/your/model/repository"""


def _analyzer(on: Subject, target: LatencyTarget, points: Sequence[_Point], test: Test) -> Iterator[str]:
    yield _ANALYZER
    models = {name: _parameters(name, points, test) for name in _touched(points)}
    clients = test.clients or 1
    if on.ensemble is not None:
        # Ensembles are searched in quick mode only; what may vary is stated per composing model (from 26.01 on).
        yield "run_config_search_mode: quick"
        yield f"profile_models: {json.dumps([on.ensemble])}"
        yield from _block("ensemble_composing_models", models)
        if test.rate is None:
            yield f"run_config_search_min_concurrency: {clients}"
            yield f"run_config_search_max_concurrency: {clients}"
    else:
        yield "run_config_search_disable: true"
        rates = sorted({round(test.rate * point.factor, 2) for point in points}) if test.rate is not None else []
        load: Mapping[str, object] = {"request_rate": rates} if rates else {"concurrency": [clients]}
        yield from _block("profile_models", {entry_name(on): {"parameters": load, **models.get(entry_name(on), {})}})
    yield from _judged(target)
    for point in points:
        yield f"# {point.name}: predicted {_predicted(target, point.predicted)}{_at(test, point)}"


def _at(test: Test, point: _Point) -> str:
    load = f"{test.rate * point.factor:.4g} requests/s" if test.rate is not None else f"{test.clients or 1} clients"
    settings = ", ".join(map(_setting, point.moves))
    return f", at {load}" + (f", with {settings}" if settings else "")


def _judged(target: LatencyTarget) -> Iterator[str]:
    yield "objectives: [perf_throughput]"
    if target.quantile == 0.99:  # the one statistic that it documents constraints of
        yield f"constraints: {json.dumps({'perf_latency_p99': {'max': round(target.seconds * 1e3, 3)}})}"
    if target.quantile is not None:
        yield f"perf_analyzer_flags: {json.dumps({'percentile': round(target.quantile * 100)})}"


def _block(key: str, models: Mapping[str, object]) -> Iterator[str]:
    """Yield a mapping, a line per model; JSON is YAML, and quotes whatever a name holds."""
    yield f"{key}:" if models else f"{key}: {{}}"
    for name, content in models.items():
        yield f"  {json.dumps(name)}: {json.dumps(content)}"


def _touched(points: Sequence[_Point]) -> Sequence[str]:
    return list(dict.fromkeys(move.model for point in points for move in point.moves))


def _parameters(model: str, points: Sequence[_Point], test: Test) -> Mapping[str, object]:
    """Return the values of a model's settings that the points hold, the ones in effect among them."""
    values: dict[str, set[int]] = {}
    batching = False
    for move in (move for point in points for move in point.moves if move.model == model):
        batching = batching or move.path.startswith("dynamic_batching")
        for value in (move.before, move.after):
            if isinstance(value, int) and not isinstance(value, bool):
                values.setdefault(move.path, set()).add(value)
    made: dict[str, object] = {}
    if counts := values.get("instance_group.count"):
        kind = {"kind": test.kinds[model]} if re.fullmatch(r"KIND_\w+", test.kinds.get(model, "")) else {}
        made["instance_group"] = [{**kind, "count": sorted(counts)}]
    if batching:
        windows = values.get("dynamic_batching.max_queue_delay_microseconds")
        made["dynamic_batching"] = {"max_queue_delay_microseconds": sorted(windows)} if windows else {}
    return {"model_config_parameters": made}
