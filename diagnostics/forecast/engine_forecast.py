"""Forecasts of an engine that is served by itself: its fitted loop, simulated with central values and with draws."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import ceil, inf, sqrt
from statistics import fmean

from diagnostics.errors import UsageError
from diagnostics.forecast.engine_fit import FittedLoop, refuse_more
from diagnostics.forecast.engine_loop import EngineLimits, EngineRequest, EngineRun, TokenCount, simulate_engine
from diagnostics.forecast.fitted import Unpredictable
from diagnostics.forecast.performance import EngineLatency, Estimate, Forecast, Performance, StagePerformance
from diagnostics.forecast.what_if import WhatIf
from diagnostics.tuning.changes import ConfigChange, Setting
from diagnostics.tuning.simulation.clock import Endless
from diagnostics.units import Unit

# Requests of the run with central values, and of a draw at least; a window's length is what a draw has at most.
_CENTRAL_REQUESTS, _DRAWN_REQUESTS = 4_000, 60
_LONGEST_WINDOW, _SHORTEST_WINDOW = 60.0, 10.0
_WARMUP = 0.3
# Of what it could do at most: beyond, a queue grows by chance for longer than any window.
_FULL = 0.98
_MOST_CLIENTS = 512
_DRAWS = 20
_SETTLING = 4


def engine_settings(changes: Sequence[ConfigChange], model: str) -> tuple[Setting, ...]:
    """Return the settings of an engine's change.

    Raises:
        UsageError: another model is changed, or a setting is not an engine's.

    """
    found = []
    for change in changes:
        for setting in change.settings:
            if change.model != model:
                raise UsageError("no such model behind this entry", where=change.model, hint=f"its model is {model}")
            if setting.path not in _SETTINGS:
                hint = f"settings of an engine are {', '.join(sorted(_SETTINGS))}"
                raise UsageError(f"its server has no setting {setting.path!r}", where=model, hint=hint)
            found.append(setting)
    return tuple(found)


def changed_loop(fitted: FittedLoop, what_if: WhatIf) -> FittedLoop:
    """Return the engine with the change made; `measured` stays what was measured without it.

    Raises:
        UsageError: another model is changed, or a setting is not an engine's.
        Unpredictable: what a setting does cannot be told from what was read.

    """
    limits, stated = fitted.limits, list[str]()
    for setting in engine_settings(what_if.changes, fitted.on.model or ""):
        limits = _SETTINGS[setting.path](fitted, limits, setting)
    load = fitted.load
    if what_if.clients is not None:
        load = replace(load, clients=what_if.clients)
    elif what_if.rate_factor != 1.0:
        load = replace(load, rate=(load.rate or fitted.measured.throughput) * what_if.rate_factor, clients=0)
    if what_if.prompt_factor != 1.0 or what_if.answer_factor != 1.0:
        load = replace(
            load, prompt=_longer(load.prompt, what_if.prompt_factor), answer=_longer(load.answer, what_if.answer_factor)
        )
        stated.append("lengths vary by the same part of their mean as now")
    _check_parts(fitted, limits, load.prompt, what_if)
    return replace(fitted, limits=limits, load=load, assumptions=(*fitted.assumptions, *stated, *_unread(limits)))


def _unread(limits: EngineLimits) -> Iterator[str]:
    """Yield what is assumed of limits that neither the pages nor the change state."""
    if limits.slots == inf:
        yield "its slots were not read: requests are taken to find one free"
    if limits.token_budget == inf:
        yield "its token budget was not read: an iteration is taken to read all prompts that wait"
    if limits.cache_tokens == inf:
        yield "its KV cache was not read: it is taken to have room for all that runs"


def _check_parts(fitted: FittedLoop, limits: EngineLimits, prompt: TokenCount, what_if: WhatIf) -> None:
    """Refuse a change of how prompts are read in parts, where no budget says how long these are or would be."""
    where = fitted.on.model or ""
    paths = {setting.path for change in what_if.changes for setting in change.settings}
    if "engine.chunked_prefill" in paths and limits.token_budget == inf:
        hint = "give engine.max_num_tokens too, as the server's log states it"
        raise Unpredictable("how long the parts of a prompt are was not read", where=where, hint=hint)
    if "engine.max_num_tokens" in paths and not limits.chunked and prompt.mean > limits.token_budget:
        raise Unpredictable(
            f"prompts of {prompt.mean:.0f} tokens do not fit into {limits.token_budget:.0f}, and are not read in parts",
            where=where,
            hint="set engine.chunked_prefill=true too, or more tokens",
        )


def _longer(one: TokenCount, factor: float) -> TokenCount:
    return replace(one, mean=max(one.mean * factor, 1.0))


def _slots(_: FittedLoop, limits: EngineLimits, setting: Setting) -> EngineLimits:
    return replace(limits, slots=_whole(setting))


def _budget(_: FittedLoop, limits: EngineLimits, setting: Setting) -> EngineLimits:
    return replace(limits, token_budget=_whole(setting))


def _chunked(_: FittedLoop, limits: EngineLimits, setting: Setting) -> EngineLimits:
    return replace(limits, chunked=bool(setting.value))


def _cache(fitted: FittedLoop, _: EngineLimits, setting: Setting) -> EngineLimits:
    # Simulated iterations lengthen with the tokens that the cache holds. Dynamo's mocker, the one engine it was held
    # against, lengthens them with the share that is in use: there, other sizes were mispredicted.
    raise Unpredictable(
        f"what {setting.path} does is not predicted: no running engine has confirmed it",
        where=fitted.on.model or "",
        hint="set it, record again, and compare both recordings with diag diff",
    )


_SETTINGS: Mapping[str, Callable[[FittedLoop, EngineLimits, Setting], EngineLimits]] = {
    "engine.max_batch_size": _slots,
    "engine.max_num_tokens": _budget,
    "engine.chunked_prefill": _chunked,
    "engine.kv_blocks": _cache,
    "engine.kv_cache_tokens": _cache,
    "engine.kv_memory_fraction": _cache,
}


LOOP_SETTINGS = frozenset(_SETTINGS)


def _whole(setting: Setting) -> int:
    return setting.value if isinstance(setting.value, int) else 1


def limit_now(fitted: FittedLoop, path: str) -> int | bool | None:
    """Return the value in effect of one of an engine's settings; None where it was not read."""
    limits = fitted.limits
    read: Mapping[str, float] = {
        "engine.max_batch_size": limits.slots if fitted.slots_stated else inf,
        "engine.max_num_tokens": limits.token_budget,
    }
    value = read.get(path, inf)
    return None if value == inf else round(value)


def settled_loop(fitted: FittedLoop, seed: int = 0) -> FittedLoop:
    """Return the engine with iterations as long as make its simulated tokens take the measured time."""
    measured = fitted.measured.per_token
    for _ in range(_SETTLING):
        ours = _tokens_seconds(_finished(_central(fitted, seed)))
        if not measured or not ours:
            return fitted
        # Longer iterations hold more requests, which lengthens them again: half of the difference is not overshot.
        factor = min(max(sqrt(measured / ours), 0.5), 2.0)
        fitted = replace(
            fitted, cost=fitted.cost.scaled(factor), draws=tuple(one.scaled(factor) for one in fitted.draws)
        )
    return fitted


def lasting(fitted: FittedLoop, seconds: float, seed: int = 0) -> FittedLoop:
    """Return the engine with answers so long that its simulated requests take the measured time."""
    for _ in range(_SETTLING):
        ended = _finished(_central(fitted, seed))
        first, whole = _mean_of(ended, _first) or 0.0, _mean_of(ended, _latency) or 0.0
        if not first < min(whole, seconds):
            return fitted
        # Longer answers hold more requests, which lengthens iterations: a part of the difference is not overshot.
        factor = min(max((seconds - first) / (whole - first), 0.5), 2.0) ** _PART
        fitted = replace(fitted, load=replace(fitted.load, answer=_longer(fitted.load.answer, factor)))
    return fitted


_PART = 0.7


def engine_forecast(fitted: FittedLoop, what_if: WhatIf, *, seed: int = 0) -> Forecast:
    """Return what a change would do, each side by `engine_performance`.

    Raises:
        UsageError: the change names what is not there.
        Unpredictable: what it does cannot be told from what was read.

    """
    after = changed_loop(fitted, what_if)
    return Forecast(
        baseline=engine_performance(fitted, seed=seed),
        predicted=engine_performance(after, seed=seed),
        measured_mean=fitted.measured.latency,
        assumptions=after.assumptions,
    )


def engine_performance(fitted: FittedLoop, what_if: WhatIf | None = None, *, seed: int = 0) -> Performance:
    """Return what requests to the engine would experience; the same for the same seed.

    Values are those of a long run with central values, intervals the least and most of 20 runs of the measured
    window's length, each by other stretches of it: they hold another window's value with 19 / 21 = 90 % probability.

    Raises:
        UsageError: the change names what is not there.
        Unpredictable: what it does cannot be told from what was read.

    """
    after = fitted if what_if is None else changed_loop(fitted, what_if)
    most = _carried(after, seed)
    _check_wait(after, most)
    stable = bool(after.load.clients) or after.load.rate < _FULL * most
    # Of an engine that cannot keep up, no number depends on how much more comes.
    after = replace(after, load=replace(after.load, rate=min(after.load.rate, 2 * most)))
    central = _central(after, seed, most)
    _check_cache(after, central)
    runs = [_drawn(after, number, seed, most) for number in range(_DRAWS)]
    found = _performance(after, central, runs, stable=stable)
    token = found.engine.per_token if found.engine else None
    if token is not None and token.high is not None:
        refuse_more(after, token.low, token.high)
    return found


def _check_wait(fitted: FittedLoop, most: float) -> None:
    """Refuse so many clients that each would wait for longer than callers do."""
    seconds = fitted.load.clients / most if most else 0.0
    if seconds > _LONGEST_WAIT:
        raise Unpredictable(
            f"{fitted.load.clients} clients would each wait {Unit.SECONDS.show(seconds)}: callers time out before",
            where=fitted.on.model or "",
            hint=f"give at most {int(_LONGEST_WAIT * most)} clients",
        )


# OpenAI's client gives up after ten minutes, proxies after one: beyond two, clients do not wait for their answers.
_LONGEST_WAIT = 120.0


def _check_cache(fitted: FittedLoop, run: EngineRun) -> None:
    """Refuse to predict an engine that puts requests back, as what this costs was not confirmed."""
    often = run.preempted / max(len(_finished(run)), 1)
    if often >= _PUT_BACK:
        raise Unpredictable(
            f"its KV cache fills: a request would be put back {often:.2g} times, and what that costs is not predicted",
            where=fitted.on.model or "",
            hint="predict from a window in which the cache has room, with fewer requests at once",
        )


# Of requests: fewer are an accident of a burst.
_PUT_BACK = 0.005


def _carried(fitted: FittedLoop, seed: int) -> float:
    """Return the requests per second that the engine answers where more of them always wait."""
    clients = int(min(4 * fitted.limits.slots, _MOST_CLIENTS))
    load = replace(fitted.load, clients=clients, rate=0.0)
    alone = fitted.cost.base * load.answer.mean
    seconds = 20 * alone * max(1.0, clients / min(fitted.limits.slots, clients) / 2)
    run = _simulated(replace(fitted, load=load), seconds, 5 * alone, seed)
    return len(_finished(run)) / seconds


def _central(fitted: FittedLoop, seed: int, most: float = inf) -> EngineRun:
    steady = replace(fitted, load=replace(fitted.load, steady=True))
    return _run(steady, _length(fitted, _CENTRAL_REQUESTS, most), seed, most)


def _drawn(fitted: FittedLoop, number: int, seed: int, most: float) -> EngineRun:
    window = min(max(fitted.measured.span, _SHORTEST_WINDOW), _LONGEST_WINDOW)
    seconds = max(window, _length(fitted, _DRAWN_REQUESTS, most))
    return _run(fitted.drawn(number, seed), seconds, seed * _DRAWS + number + 1, most)


def _length(fitted: FittedLoop, requests: int, most: float) -> float:
    """Return the seconds in which about so many requests come."""
    load = fitted.load
    rate = load.rate or load.clients / (fitted.measured.latency or fitted.cost.base * load.answer.mean)
    return requests / max(min(rate, most), 1e-6)


def _run(fitted: FittedLoop, seconds: float, seed: int, most: float) -> EngineRun:
    alone = fitted.cost.base * fitted.load.answer.mean
    # Clients that begin together wait as long as they do later from their second request on.
    cycles = 2 * fitted.load.clients / most if most else 0.0
    warmup = max(_WARMUP * seconds, min(10 * alone, seconds), cycles)
    return _simulated(fitted, seconds, warmup, seed)


def _simulated(fitted: FittedLoop, seconds: float, warmup: float, seed: int) -> EngineRun:
    """Return a run of the engine.

    Raises:
        Unpredictable: it takes more steps than a run may have.

    """
    try:
        return simulate_engine(fitted.limits, fitted.cost, fitted.load, seconds=seconds, warmup=warmup, seed=seed)
    except Endless as error:
        raise Unpredictable(
            f"cannot be forecast: its simulation {error.what}",
            where=fitted.on.model or "",
            hint="ask for shorter answers, fewer clients or less load",
        ) from error


def _finished(run: EngineRun) -> list[EngineRequest]:
    return [one for one in run.requests if run.begin <= one.ended < run.end]


def _tokens_seconds(ended: Sequence[EngineRequest]) -> float | None:
    """Return the mean time per token after the first, over all tokens."""
    gaps = sum(one.answer - 1 for one in ended)
    return sum(one.ended - one.first for one in ended) / gaps if gaps else None


def _mean_of(ended: Sequence[EngineRequest], take: Callable[[EngineRequest], float]) -> float | None:
    return fmean(map(take, ended)) if ended else None


def _quantile(ended: Sequence[EngineRequest], take: Callable[[EngineRequest], float], share: float) -> float | None:
    ordered = sorted(map(take, ended))
    return ordered[min(ceil(share * len(ordered)), len(ordered)) - 1] if ordered else None


_Statistic = Callable[[EngineRun], float | None]


def _latency(one: EngineRequest) -> float:
    return one.ended - one.came


def _first(one: EngineRequest) -> float:
    return one.first - one.came


def _waited(one: EngineRequest) -> float:
    return one.started - one.came


def _statistic(take: Callable[[EngineRequest], float], share: float | None = None) -> _Statistic:
    if share is None:
        return lambda run: _mean_of(_finished(run), take)
    return lambda run: _quantile(_finished(run), take, share)


def _estimate(
    central: EngineRun, runs: Sequence[EngineRun], take: _Statistic, *, stable: bool = True
) -> Estimate | None:
    value = take(central)
    each = [one for run in runs if (one := take(run)) is not None]
    if value is None or not each or not stable:
        return None
    return Estimate(value=value, low=min(value, *each), high=max(value, *each))


def _known(one: Estimate | None) -> Estimate:
    return one or Estimate(value=0.0, low=0.0, high=None)


def _performance(fitted: FittedLoop, central: EngineRun, runs: Sequence[EngineRun], *, stable: bool) -> Performance:
    def of(take: _Statistic, *, needs: bool = True) -> Estimate | None:
        return _estimate(central, runs, take, stable=stable or not needs)

    name = fitted.on.model or ""
    queue = of(_statistic(_waited))
    running = _known(of(lambda run: run.running / (run.end - run.begin), needs=False))
    means = [mean for run in runs if (mean := _mean_of(_finished(run), _latency)) is not None]
    return Performance(
        entry=name,
        mean=of(_statistic(_latency)),
        p50=of(_statistic(_latency, 0.5)),
        p95=of(_statistic(_latency, 0.95)),
        p99=of(_statistic(_latency, 0.99)),
        throughput=_known(of(lambda run: len(_finished(run)) / (run.end - run.begin), needs=False)),
        rejected=0.0,
        stages=(
            StagePerformance(
                model=name,
                queue_mean=queue,
                queue_p95=of(_statistic(_waited, 0.95)),
                compute_mean=_known(of(_statistic(lambda one: one.ended - one.started), needs=False)),
                busy_share=_known(of(lambda run: run.busy / (run.end - run.begin), needs=False)),
                batch_size_mean=running.value,
                refused_per_second=0.0,
                stable=stable,
                engine=True,
            ),
        ),
        mean_most=max(means, default=None),
        drawn=tuple(_mean_of(_finished(run), _latency) if stable else None for run in runs),
        engine=EngineLatency(
            first_token=of(_statistic(_first)),
            first_token_p95=of(_statistic(_first, 0.95)),
            per_token=of(lambda run: _tokens_seconds(_finished(run)), needs=False),
            queue=queue,
            running=running,
            cache_share=None if fitted.limits.cache_tokens == inf else _cache_share(fitted, central, runs),
            preempted=central.preempted / max(len(_finished(central)), 1),
        ),
    )


def _cache_share(fitted: FittedLoop, central: EngineRun, runs: Sequence[EngineRun]) -> Estimate | None:
    cache = fitted.limits.cache_tokens
    return _estimate(central, runs, lambda run: run.cache / (run.end - run.begin) / cache)
