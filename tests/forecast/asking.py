"""One recorded window: asks what each change would do, as the command line does, within limits of time and memory.

Run by `tests.forecast.everywhere` in a process of its own; prints a JSON line before and after each case.
"""

from __future__ import annotations

import json
import resource
import signal
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from unittest.mock import patch

import jsonschema

from diagnostics.cli import tuning
from diagnostics.cli import verify as verifying
from diagnostics.cli.evidence_source import see_captures
from diagnostics.cli.sources import WindowOptions, explain_captures
from diagnostics.cli.tuning import Aim, tuned
from diagnostics.diagnosis.change_options import changes_given, models_on
from diagnostics.diagnosis.proposal import Proposal
from diagnostics.diagnosis.proposing import ChangeRequest, SourceEvidence, entry_of, load_of, proposed
from diagnostics.diagnosis.validation import validated
from diagnostics.errors import DiagError
from diagnostics.forecast import entry_model
from diagnostics.forecast.entry_model import SchedulerModel
from diagnostics.forecast.estimate import estimate
from diagnostics.forecast.fitted import Fitted
from diagnostics.forecast.fitting import fit
from diagnostics.forecast.performance import Performance
from diagnostics.forecast.predict import forecast, performance
from diagnostics.forecast.runs import DRAWS
from diagnostics.forecast.verify import verify
from diagnostics.forecast.what_if import WhatIf, changed
from diagnostics.render.explanation.json import Json, report
from diagnostics.render.forecast.document import forecast_document
from diagnostics.render.forecast.json import forecast_report, forecast_schema
from diagnostics.render.formats.markdown import write as as_markdown
from diagnostics.render.text import as_text
from diagnostics.render.tuning.document import tuned_document
from diagnostics.render.tuning.json import tuned_report, tuning_schema
from diagnostics.render.verification.document import verify_document
from diagnostics.render.verification.json import verify_report
from diagnostics.signals.triton import ARRIVAL_RATE
from diagnostics.tuning.simulation.scenario import ClosedLoop
from tests.forecast.contradictions import contradictions, effects_of_nothing
from tests.forecast.everywhere import CASE_SECONDS, PROCESS_BYTES
from tests.forecast.impossible import impossible
from tests.render.shown import text

_BATCHING = "dynamic_batching"
# Of the stage that is busiest (`{}`): settings as on the command line.
SETTINGS: Mapping[str, tuple[str, ...]] = {
    **{f"count {n}": (f"{{}}.instance_group.count={n}",) for n in (1, 2, 4, 64, 1024)},
    "count 0": ("{}.instance_group.count=0",),
    **{f"delay {n}": (f"{{}}.{_BATCHING}.max_queue_delay_microseconds={n}",) for n in (0, 500, 1_000_000)},
    "delay beyond": (f"{{}}.{_BATCHING}.max_queue_delay_microseconds={2**64 - 1}",),
    "preferred": (f"{{}}.{_BATCHING}.preferred_batch_size=4,8",),
    "preferred odd": (f"{{}}.{_BATCHING}.preferred_batch_size=4096,3",),
    "ordering": (f"{{}}.{_BATCHING}.preserve_ordering=true",),
    "batching": (f"{{}}.{_BATCHING}=true",),
    "no batching": (f"{{}}.{_BATCHING}=none",),
    "limit 1": (f"{{}}.{_BATCHING}.default_queue_policy.max_queue_size=1",),
    "limit 50": (f"{{}}.{_BATCHING}.default_queue_policy.max_queue_size=50",),
    "timeout": (f"{{}}.{_BATCHING}.default_queue_policy.default_timeout_microseconds=1000",),
    "timeout delay": (
        f"{{}}.{_BATCHING}.default_queue_policy.default_timeout_microseconds=1",
        f"{{}}.{_BATCHING}.default_queue_policy.timeout_action=DELAY",
    ),
    **{f"max batch {n}": (f"{{}}.max_batch_size={n}",) for n in (0, 1, 64, 4096)},
    "max batch batching": ("{}.max_batch_size=4096", f"{{}}.{_BATCHING}=true"),
    "slots 1": ("{}.engine.max_batch_size=1",),
    "slots 4096": ("{}.engine.max_batch_size=4096",),
    **{f"kv {n}": (f"{{}}.parameters.kv_cache_free_gpu_mem_fraction={n}",) for n in ("0", "0.1", "0.99", "nan", "-1")},
    **{f"kv tokens {n}": (f"{{}}.parameters.max_tokens_in_paged_kv_cache={n}",) for n in (1, 100_000, "inf")},
    "static": ("{}.parameters.gpt_model_type=V1",),
}
# Deployments whose forecasts are held against each other.
LAWS = ("", "count 2", "no batching", "batching", "delay 500", "limit 1", "limit 50", "timeout", "slots 1")
RATES = ("0.01x", "0.5x", "2x", "10x", "100x", "1000000x", "1/s", "0.000001x")
CLIENTS = (1, 2, 64, 1000)
OBJECTIVES = ("mean < 100s", "p95 < 100ms", "p99 < 1us", "p50 < 10ms")


class TooLong(BaseException):
    """A case took more than its processor time; no `except Exception` may stop it."""


def _too_long(_number: int, _frame: object) -> None:
    raise TooLong


class Window:
    """A recorded window, and what can be asked of it."""

    def __init__(self, path: Path, other: Path, *, quick: bool) -> None:
        self.path, self.other, self.quick = path, other, quick
        self.seen = see_captures([path], WindowOptions())

    def cases(self) -> Iterator[tuple[str, Callable[[], None]]]:
        """Yield every case with its name."""
        yield "explain", self.explain
        yield "nothing", self.nothing
        for name in LAWS:
            yield f"laws {name}", partial(self.laws, SETTINGS.get(name, ()))
        for name, settings in SETTINGS.items():
            yield name, partial(self.whatif, settings)
        for rate in RATES:
            yield f"rate {rate}", partial(self.whatif, (), rate=rate)
        for clients in CLIENTS:
            yield f"clients {clients}", partial(self.whatif, (), clients=clients)
        yield "more of all", partial(self.whatif, ("{}.instance_group.count=4",), rate="3x")
        if not self.quick:
            for objective in OBJECTIVES:
                yield f"tune {objective}", partial(self.tune, objective)
        yield "verify itself", partial(self.verify, self.path)
        yield "verify", partial(self.verify, self.other)

    def explain(self) -> None:
        """Explain the window with its proof."""
        found = explain_captures([self.path], WindowOptions(), lambda _: None)
        found = validated(found)
        json.dumps(report(found), allow_nan=False)
        text(found)

    def nothing(self) -> None:
        """Forecast no change, and one to what is in effect."""
        fitted = _fit(self.seen.evidence, entry_of(self.seen.evidence, None))
        _none(effects_of_nothing(fitted), "closed forms")
        closed = any(isinstance(one, ClosedLoop) for one in fitted.scenario.traffic)
        wishes = (ChangeRequest(), *(() if closed else (ChangeRequest(rate="1x"),)))
        for request in wishes:
            found = forecast(fitted, _what_if(self.seen, request), draws=2)
            assert found.baseline == found.predicted, f"{request}: {found.baseline} becomes {found.predicted}"

    def laws(self, settings: tuple[str, ...]) -> None:
        """Hold forecasts of one deployment, at several loads and with more instances, against each other."""
        fitted = _fit(self.seen.evidence, entry_of(self.seen.evidence, None))
        request = ChangeRequest(settings=tuple(one.format(_busiest(self.seen)) for one in settings))
        _none(contradictions(changed(fitted, _what_if(self.seen, request))), "closed forms")

    def whatif(self, settings: tuple[str, ...], rate: str | None = None, clients: int | None = None) -> None:
        """Forecast a change of the busiest stage, of the rate, or of the clients."""
        model = _busiest(self.seen) if settings else ""
        request = ChangeRequest(settings=tuple(one.format(model) for one in settings), rate=rate, clients=clients)
        before = _fit(self.seen.evidence, entry_of(self.seen.evidence, None))
        after = changed(before, _what_if(self.seen, request))
        hold(after, estimate(after), "closed forms")
        if self.quick:
            hold(after, performance(after, draws=2, visits=4_000), "simulation")
            return
        found = proposed(self.seen, request)
        hold(before, found.forecast.baseline, "baseline")
        hold(after, found.forecast.predicted, "simulation")
        if not (rate or clients):
            _hold_direction(before, after, found)
        _valid(forecast_report(found), forecast_schema())
        as_text(forecast_document(found))
        as_markdown(forecast_document(found))

    def tune(self, objective: str) -> None:
        """Search the smallest change that meets an objective."""
        found = tuned(self.seen, ChangeRequest(), Aim(objective=objective))
        fitted = _fit(self.seen.evidence, found.on)
        hold(fitted, found.tuning.baseline, "baseline")
        if (best := found.tuning.best) is not None:
            again = forecast(fitted, WhatIf(changes=best.changes)).predicted
            assert again == best.performance, f"{best.changes}: {best.performance} becomes {again}"
        _valid(tuned_report(found), tuning_schema())
        as_text(tuned_document(found))

    def verify(self, other: Path) -> None:
        """Hold this window's prediction against another one."""
        after = see_captures([other], WindowOptions())
        was, now = verifying._entries(self.seen.evidence, after.evidence, None)
        found = verify(self.seen.evidence, was, after.evidence, now, draws=2 if self.quick else DRAWS)
        windows = (self.seen.window, after.window)
        json.dumps(verify_report(found, windows), allow_nan=False)
        as_text(verify_document(found, windows))


def hold(fitted: Fitted, found: Performance, whose: str) -> None:
    """Fail where a forecast is impossible."""
    _none(impossible(fitted, found), whose)


def _none(wrong: Iterable[str], whose: str) -> None:
    found = list(wrong)
    assert not found, f"{whose}: {'; '.join(found[:4])}"


def _hold_direction(before: Fitted, after: Fitted, found: Proposal) -> None:
    """Fail where more instances make it surely slower, and nothing that they share is said to be the reason."""
    fewer, more = ({one.name: one.instances for one in each.scenario.models} for each in (before, after))
    now, then = found.forecast.baseline.mean, found.forecast.predicted.mean
    if now is None or now.high is None or all(more[name] <= count for name, count in fewer.items()):
        return
    stated = any("share" in one for one in found.forecast.assumptions)
    assert stated or (then is not None and then.low <= now.high), f"more instances, {now} becomes {then}"


def _what_if(seen: SourceEvidence, request: ChangeRequest) -> WhatIf:
    on = entry_of(seen.evidence, None)
    changes = changes_given(request.settings, models_on(seen.evidence, on.server))
    load = load_of(SchedulerModel(_fit(seen.evidence, on), seen.evidence.read(ARRIVAL_RATE, on).value), request)
    return WhatIf(changes=changes, rate_factor=load.rate_factor, clients=load.clients)


def _valid(report: Json, schema: str) -> None:
    jsonschema.validate(json.loads(json.dumps(report, allow_nan=False)), json.loads(schema))


@cache
def _fit(evidence: object, on: object) -> Fitted:
    return fit(evidence, on)  # type: ignore[arg-type]


def _busiest(seen: SourceEvidence) -> str:
    """Return the stage that is full first, else the one that takes longest."""
    fitted = _fit(seen.evidence, entry_of(seen.evidence, None))
    stages = fitted.measured.stages
    return max(stages, key=lambda one: (one.queue_mean or 0.0) + (one.compute_mean or 0.0)).model


def fate_of(ask: Callable[[], None]) -> tuple[str, str]:
    """Return what became of a case: `fine`, `refused` with a message, or in capitals what went wrong."""
    signal.setitimer(signal.ITIMER_PROF, CASE_SECONDS)
    try:
        ask()
    except DiagError as error:
        return "refused", str(error)
    except TooLong:
        return "TIMEOUT", traceback.format_exc(limit=-3).replace("\n", " | ")
    except MemoryError:
        return "MEMORY", ""
    except AssertionError as error:
        return "IMPOSSIBLE", str(error)
    except Exception:  # noqa: BLE001 - whatever escapes is what is sought
        return "TRACEBACK", traceback.format_exc(limit=-4).replace("\n", " | ")
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return "fine", ""


def main() -> None:
    """Ask what the command line names."""
    path, other, part, case = sys.argv[1:5]
    resource.setrlimit(resource.RLIMIT_AS, (PROCESS_BYTES, PROCESS_BYTES))
    signal.signal(signal.SIGPROF, _too_long)
    number, of = map(int, part.split("/"))
    window = Window(Path(path), Path(other), quick="--quick" in sys.argv)
    with patch.object(entry_model, "fit", _fit), patch.object(tuning, "fit", _fit):
        for at, (name, ask) in enumerate(window.cases()):
            if case not in name or (at + len(path) + sum(path.encode())) % of != number:
                continue
            print(json.dumps({"case": name}), flush=True)
            fate, stated = fate_of(ask)
            print(json.dumps({"case": name, "fate": fate, "stated": stated}), flush=True)


if __name__ == "__main__":
    main()
