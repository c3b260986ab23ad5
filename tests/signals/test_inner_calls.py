"""What models call from inside their executions, read from counters alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import pytest

from diagnostics.signals.inner_calls import (
    FILLABLE_SHARE,
    NESTED_SHARE,
    NESTED_WAIT,
    InnerCalls,
    inner_calls,
    possible_share,
)
from diagnostics.signals.inner_rows import CallCounters, runs_ahead
from diagnostics.signals.signal import Missing
from diagnostics.window.view import ModelView
from diagnostics.window.window import window_of
from diagnostics.wire.records import BodyKind
from tests.builders import chain, model_config, view_of
from tests.builders_traffic import Did, story_scrapes

# About eleven requests a second, read every two seconds.
COUNTS = (18, 25, 20, 23, 17, 22, 26, 19, 21, 24, 20, 18, 23, 22, 19)
# An execution or so is behind its call at most reads.
AHEAD = (1, 0, 1, 1, 0, 1, 2, 1, 0, 1, 1, 1, 0, 2, 1)
OTHERS = (23, 14, 25, 20, 16, 27, 19, 15, 24, 21, 13, 26, 18, 22, 29)
Story = Mapping[str, Sequence[Did]]


def did(each: Did, counts: Sequence[float] = COUNTS) -> list[Did]:
    return [replace(each, requests=count) for count in counts]


def apart(by: Sequence[float], times: int = 1, counts: Sequence[float] = COUNTS) -> list[float]:
    """Return the counts of what has completed so many more at each read."""
    ends = [0.0, *by]
    return [times * count + after - before for count, (before, after) in zip(counts, pairwise(ends), strict=True)]


def view(story: Story, kinds: Sequence[BodyKind] = (), **configs: Mapping[str, object]) -> ModelView:
    settings = {model: configs.get(model, model_config(model)) for model in story}
    scrapes = story_scrapes({(model, "1"): steps for model, steps in story.items()}, configs=settings)
    return view_of(window_of([one for one in scrapes if one.kind not in kinds]), None, None)


def found(story: Story, **configs: Mapping[str, object]) -> Mapping[str, InnerCalls]:
    return inner_calls(view(story, **configs))


def called(story: Story, **configs: Mapping[str, object]) -> Mapping[str, list[str]]:
    return {caller: [call.model for call in one.calls] for caller, one in found(story, **configs).items()}


WRAPPER = did(Did(seconds=0.4, queue=0.3, infer=0.1))
FULL = did(Did(seconds=0.098, queue=0.06, infer=0.038), apart(AHEAD))


def test_a_model_whose_executions_another_ones_requests_fill_in_step_calls_it() -> None:
    one = found({"wrapper": WRAPPER, "full": FULL})["wrapper"]

    assert [call.model for call in one.calls] == ["full"]
    assert one.calls[0].times == pytest.approx(1.0, abs=0.01)
    assert one.share == pytest.approx(0.98, abs=0.01)
    assert one.low == one.share
    assert one.waits == pytest.approx(0.06 / 0.098, abs=0.01)


def test_what_it_calls_in_turn_and_twice_fills_it_together() -> None:
    story = {
        "wrapper": WRAPPER,
        "first": did(Did(seconds=0.02, infer=0.02), apart([2 * one for one in AHEAD])),
        "twice": did(Did(seconds=0.037, infer=0.037), apart(AHEAD, times=2)),
    }
    one = found(story)["wrapper"]

    assert {call.model: round(call.times) for call in one.calls} == {"first": 1, "twice": 2}
    assert one.share == pytest.approx(0.94, abs=0.01)


def test_a_model_that_works_itself_as_well_is_found_by_what_runs_ahead_of_it() -> None:
    story = {"wrapper": WRAPPER, "short": did(Did(seconds=0.03, infer=0.03), apart(AHEAD))}

    assert found(story)["wrapper"].share == pytest.approx(0.3, abs=0.01)


@pytest.mark.parametrize(
    "other",
    [
        did(Did(seconds=0.098, infer=0.098), apart([-one for one in AHEAD])),
        did(Did(seconds=0.098, infer=0.098), apart([3 + one for one in AHEAD])),
        did(Did(seconds=0.098, infer=0.098), OTHERS),
        did(Did(seconds=0.3, infer=0.3), apart(AHEAD)),
    ],
    ids=["a client calls it afterwards", "a client calls it before", "it has callers of its own", "it takes longer"],
)
def test_a_model_that_is_called_from_elsewhere_is_not_taken_for_a_callee(other: Sequence[Did]) -> None:
    seen = view({"model": WRAPPER, "other": other})

    assert inner_calls(seen) == {}
    assert possible_share(seen.beside("model")).share == 0.0


def test_models_of_the_same_length_that_a_client_calls_at_once_call_nobody() -> None:
    story = {name: did(Did(seconds=seconds, infer=seconds)) for name, seconds in (("a", 0.1), ("b", 0.099), ("c", 0.1))}

    assert called(story) == {}


@pytest.mark.parametrize(("called", "share"), [(120.0, 0.98), (128.0, 0.98), (150.0, 0.0)])
def test_few_reads_leave_open_whether_models_called_as_often_are_called_inside(called: float, share: float) -> None:
    """Independent streams of 240 requests end within 11 of each other in a third of all windows."""
    story = {
        "wrapper": did(Did(seconds=0.4, queue=0.3, infer=0.1), (120.0, 120.0)),
        "full": did(Did(seconds=0.098, queue=0.06, infer=0.038), (120.0, called)),
    }
    seen = view(story)
    possible = possible_share(seen.beside("wrapper"))

    assert (possible.share, possible.ahead) == (0.0, 0.0)
    assert possible.undecided == pytest.approx(share, abs=0.05)
    assert inner_calls(seen) == {}
    assert (FILLABLE_SHARE.read(seen.beside("wrapper")).missing is Missing.TOO_FEW_EVENTS) is (share > 0)


def test_members_of_an_ensemble_are_called_by_it() -> None:
    story = {"chat": did(Did(seconds=0.2)), "wrapper": WRAPPER, "full": did(Did(seconds=0.098, infer=0.098))}

    assert called(story, chat=chain("chat", "full", "wrapper")) == {}


def test_a_compiled_model_calls_nobody() -> None:
    assert called({"wrapper": WRAPPER, "full": FULL}, wrapper=model_config("wrapper", backend="onnxruntime")) == {}


def test_calls_at_the_same_time_take_as_long_as_the_longest() -> None:
    story = {"wrapper": WRAPPER, "long": FULL, "short": did(Did(seconds=0.07, infer=0.07), apart(AHEAD))}
    one = found(story)["wrapper"]

    assert [(call.model, call.beside) for call in one.calls] == [("long", False), ("short", True)]
    assert one.share == pytest.approx(0.98, abs=0.01)


def test_calls_that_would_fit_one_after_another_may_be_made_at_once() -> None:
    halves = {name: did(Did(seconds=0.045, infer=0.045), apart(AHEAD)) for name in ("one", "other")}
    seen = view({"wrapper": WRAPPER, **halves}).beside("wrapper")
    share = NESTED_SHARE.read(seen)

    assert not inner_calls(seen)["wrapper"].at_once
    assert share.value == pytest.approx(0.9, abs=0.01)
    assert share.low == pytest.approx(0.45, abs=0.01)


def test_calls_within_calls_are_distinguished() -> None:
    story = {
        "outer": did(Did(seconds=0.6, queue=0.29, infer=0.31)),
        "inner": did(Did(seconds=0.3, infer=0.105, queue=0.195), apart(AHEAD)),
        "full": did(Did(seconds=0.1, queue=0.06, infer=0.04), apart(AHEAD)),
    }

    assert called(story) == {"outer": ["inner"], "inner": ["full"]}


# The last call of an execution ends with it: a read sees one of both, or none.
LAST = (0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0)


def test_a_model_that_works_itself_and_calls_others_is_found_by_the_long_call_that_runs_ahead() -> None:
    story = {
        "wrapper": WRAPPER,
        "long": did(Did(seconds=0.05, infer=0.05), apart(AHEAD)),
        "last": did(Did(seconds=0.02, infer=0.02), apart(LAST)),
    }
    one = found(story)["wrapper"]

    assert [call.model for call in one.calls] == ["long", "last"]
    assert (one.low, one.share) == (pytest.approx(0.5, abs=0.01), pytest.approx(0.7, abs=0.01))


def test_a_short_call_that_may_come_afterwards_makes_no_caller() -> None:
    assert called({"model": WRAPPER, "other": did(Did(seconds=0.02, infer=0.02), apart(LAST))}) == {}


def test_what_ends_before_a_queue_is_over_is_not_called_from_behind_it() -> None:
    beside = did(Did(seconds=0.05, infer=0.05), apart([3 + one for one in AHEAD]))

    assert called({"model": WRAPPER, "beside": beside}) == {}


def test_reads_at_one_time_by_a_clock_that_was_set_back_tell_no_order() -> None:
    """The only difference is that between two reads which the clock calls simultaneous."""
    at_once = {(10.0, 10.0): 40.0}
    caller, callee = (
        CallCounters(
            model=model,
            source="statistics",
            requests=at_once,
            direct=at_once,
            executions=at_once,
            held={(10.0, 10.0): 4.0},
            seconds={(10.0, 10.0): seconds},
            waits=0.0,
            before=0.0,
            members=(),
        )
        for model, seconds in (("wrapper", 5.0), ("full", 3.0))
    )

    assert runs_ahead(caller, callee, 1) is None


def test_calls_belong_to_the_shortest_model_that_holds_them() -> None:
    waits = [0.4 + 0.02 * (count % 7) for count in OTHERS]
    story = {
        "outer": [Did(requests=n, seconds=0.1 + one, infer=0.1 + one) for n, one in zip(COUNTS, waits, strict=True)],
        "inner": [
            Did(requests=n, seconds=0.07 + one, queue=one, infer=0.07) for n, one in zip(COUNTS, waits, strict=True)
        ],
        "long": did(Did(seconds=0.035, infer=0.035), apart(AHEAD)),
        "last": did(Did(seconds=0.024, infer=0.024), apart(LAST)),
        "before": did(Did(seconds=0.02, infer=0.02), apart([4 + one for one in AHEAD])),
    }

    assert called(story) == {"inner": ["long", "last"], "outer": ["inner", "before"]}


def test_an_ensemble_is_called_like_a_model() -> None:
    story = {
        "wrapper": WRAPPER,
        "chat": did(Did(seconds=0.097, queue=0.0, infer=0.04), apart(AHEAD)),
        "member": did(Did(seconds=0.097, queue=0.057, infer=0.04), apart(AHEAD)),
    }
    one = found(story, chat=chain("chat", "member"))["wrapper"]

    assert [call.model for call in one.calls] == ["chat"]
    assert one.waits == pytest.approx(0.057 / 0.097, abs=0.01)


def test_calls_that_are_not_always_made_are_found_where_their_time_agrees_at_each_read() -> None:
    seldom = [round(0.4 * count) for count in COUNTS]
    held = [
        Did(requests=n, seconds=0.4, queue=0.3, infer=0.01 + 0.2 * few / n)
        for n, few in zip(COUNTS, seldom, strict=True)
    ]
    story = {
        "wrapper": held,
        "always": did(Did(seconds=0.009, infer=0.009), COUNTS),
        "seldom": did(Did(seconds=0.198, queue=0.15, infer=0.048), seldom),
    }

    assert called(story) == {"wrapper": ["seldom", "always"]}
    assert called({**story, "seldom": did(story["seldom"][0], [round(one / 2.5) for one in OTHERS])}) == {}


@pytest.mark.parametrize(("own", "callees"), [(0.007, {"wrapper": ["seldom"]}), (0.012, {})])
def test_a_caller_for_some_requests_is_found_where_it_works_a_tenth_of_its_time_itself(
    own: float, callees: Mapping[str, list[str]]
) -> None:
    seldom = [round(0.4 * count) for count in COUNTS]
    held = [
        Did(requests=n, seconds=0.4, queue=0.3, infer=own + 0.2 * k / n) for n, k in zip(COUNTS, seldom, strict=True)
    ]

    assert called({"wrapper": held, "seldom": did(Did(seconds=0.2, queue=0.15, infer=0.05), seldom)}) == callees


def test_a_callee_with_callers_of_its_own_is_found_where_both_take_longer_together() -> None:
    longer = [0.06 + 0.01 * (count % 7) for count in OTHERS]
    story = {
        "wrapper": [Did(requests=n, seconds=0.4, infer=one) for n, one in zip(COUNTS, longer, strict=True)],
        "shared": [
            Did(requests=n + more / 2, seconds=0.98 * one, queue=one / 2, infer=one * 0.48)
            for n, more, one in zip(COUNTS, OTHERS, longer, strict=True)
        ],
    }
    one = found(story)["wrapper"]

    assert (one.calls[0].model, one.calls[0].times, one.low) == ("shared", 1.0, 0.0)
    steady = [replace(each, seconds=0.098) for each in story["shared"]]
    assert called({"wrapper": WRAPPER, "shared": steady}) == {}


def test_totals_that_parted_before_the_window_leave_the_order_open() -> None:
    tests = replace(FULL[0], requests=500)
    first = replace(WRAPPER[0], requests=100)
    steady = view({"wrapper": [first, *WRAPPER], "full": [tests, *FULL]})
    lengths = [0.09 + 0.002 * (count % 7) for count in COUNTS]
    wrapper, full = (
        [replace(one, **{name: part * length}) for one, length in zip(steps, lengths, strict=True)]
        for steps, name, part in ((WRAPPER, "infer", 1.0), (FULL, "seconds", 0.97))
    )
    varied = view({"wrapper": [first, *wrapper], "full": [tests, *full]})

    assert inner_calls(replace(steady, start=steady.start + 2.0)) == {}
    one = inner_calls(replace(varied, start=varied.start + 2.0))["wrapper"]
    assert (one.low, one.share) == (0.0, pytest.approx(0.97, abs=0.01))


def test_a_callee_that_hides_its_time_leaves_open_how_much_of_it_is_its() -> None:
    hidden = did(Did(seconds=0.001, infer=0.001), COUNTS)
    decoupled = model_config("llm", model_transaction_policy={"decoupled": True})
    seen = view({"wrapper": WRAPPER, "llm": hidden}, llm=decoupled)

    assert inner_calls(seen) == {}
    assert possible_share(seen.beside("wrapper")).share == 1.0


@pytest.mark.parametrize(("part", "reported"), [(0.06, True), (0.04, False)])
def test_beside_a_callee_that_hides_its_time_those_that_surely_fill_most_of_it_are_found(
    part: float, reported: bool
) -> None:
    short = did(Did(seconds=part, infer=part), apart(AHEAD))
    hidden = did(Did(seconds=0.001, infer=0.001), COUNTS)
    decoupled = model_config("llm", model_transaction_policy={"decoupled": True})
    seen = view({"wrapper": WRAPPER, "short": short, "llm": hidden}, llm=decoupled)

    assert ("wrapper" in inner_calls(seen)) is reported
    if reported:
        one = inner_calls(seen)["wrapper"]
        assert (one.low, one.high) == (pytest.approx(part / 0.1, abs=0.01), 1.0)


def test_a_metrics_page_tells_as_much_where_each_execution_is_of_one_request() -> None:
    seen = view({"wrapper": WRAPPER, "full": FULL}, kinds=[BodyKind.STATISTICS])

    assert inner_calls(seen)["wrapper"].source == "metrics"


def test_the_share_of_an_execution_that_is_nested_needs_no_trace() -> None:
    seen = view({"wrapper": WRAPPER, "full": FULL})
    share, waits = NESTED_SHARE.read(seen.beside("wrapper")), NESTED_WAIT.read(seen.beside("wrapper"))

    assert (share.value, share.estimated) == (pytest.approx(0.98, abs=0.01), True)
    assert waits.value == pytest.approx(0.61, abs=0.01)
    assert NESTED_SHARE.read(seen.beside("full")).missing is Missing.NOT_EXPORTED
