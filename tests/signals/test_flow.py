"""Failures, and requests that get lost between the stages of an ensemble."""

from __future__ import annotations

from dataclasses import replace

import pytest

from diagnostics.signals.flow import (
    FAILED_REQUESTS,
    FAILED_SHARE,
    LOST_AFTER_STAGE,
    LOST_BEFORE_STAGE,
    REJECTED_REQUESTS,
)
from diagnostics.signals.signal import Missing, Reading, Signal
from diagnostics.wire.records import BodyKind
from tests.builders import Stage, SyntheticTriton, chain, model_config, restarted_at, view_of

CHAT = Stage("chat", rate=8, config=chain("chat", "pre", "safety", "post"))
PRE = Stage("pre", rate=10, config=model_config("pre"))
SAFETY = Stage("safety", rate=10, config=model_config("safety"))
POST = Stage("post", rate=10, config=model_config("post"))


def read(signal: Signal, model: str, *stages: Stage, without: tuple[BodyKind, ...] = ()) -> Reading:
    window = SyntheticTriton(models=stages).without(*without).window(reads=13)
    return signal.read(view_of(window, model, None))


def test_one_failed_ensemble_request_is_counted_twice_by_triton_and_once_here() -> None:
    found = read(FAILED_REQUESTS, "chat", replace(CHAT, failing={"OTHER": 4.0}))

    assert found.value == 120
    assert found.estimated


def test_a_models_failures_are_taken_as_they_are() -> None:
    found = read(FAILED_REQUESTS, "pre", replace(PRE, failing={"BACKEND": 2.0, "REJECTED": 1.0}))

    assert found.value == 180
    assert not found.estimated


def test_what_callers_gave_up_is_no_failure() -> None:
    given_up = {"BACKEND": 2.0, "CANCELED": 5.0}
    chat = replace(CHAT, failing={"OTHER": 14.0})

    assert read(FAILED_REQUESTS, "pre", replace(PRE, failing=given_up)).value == 120
    assert read(FAILED_SHARE, "pre", replace(PRE, failing={"CANCELED": 5.0})).value == 0
    # Each request that a member lost to its caller is one that the ensemble counts as failed, twice.
    assert read(FAILED_REQUESTS, "chat", chat, replace(PRE, failing=given_up)).value == 120


def test_statistics_tell_failures_when_metrics_are_closed() -> None:
    stage = replace(PRE, failing={"BACKEND": 2.0})

    assert read(FAILED_REQUESTS, "pre", stage, without=(BodyKind.METRICS,)).value == 120
    assert read(REJECTED_REQUESTS, "pre", stage, without=(BodyKind.METRICS,)).value is None


def test_rejections_are_those_with_that_reason() -> None:
    assert read(REJECTED_REQUESTS, "pre", replace(PRE, failing={"BACKEND": 2.0, "REJECTED": 1.0})).value == 60


def test_the_failed_share_is_of_all_requests_failed_or_not() -> None:
    assert read(FAILED_SHARE, "pre", replace(PRE, failing={"BACKEND": 2.5})).value == pytest.approx(0.2)
    assert read(FAILED_SHARE, "chat", replace(CHAT, failing={"OTHER": 4.0})).value == pytest.approx(0.2)


def test_a_model_without_a_request_has_no_failed_share() -> None:
    assert read(FAILED_SHARE, "pre", replace(PRE, rate=0)).missing is Missing.IDLE


def test_requests_answered_with_an_error_are_missing_at_the_next_stage() -> None:
    stages = (CHAT, PRE, SAFETY, replace(POST, rate=8))

    assert read(LOST_AFTER_STAGE, "safety", *stages).value == pytest.approx(120)
    assert read(LOST_AFTER_STAGE, "pre", *stages).value == pytest.approx(0)


def test_requests_that_wait_at_the_next_stage_are_not_lost() -> None:
    stages = (CHAT, PRE, SAFETY, replace(POST, rate=8, pending_growth=2.0))

    assert read(LOST_AFTER_STAGE, "safety", *stages).value == pytest.approx(0)


def test_requests_that_fail_at_the_next_stage_are_not_lost_on_the_way_to_it() -> None:
    stages = (CHAT, PRE, SAFETY, replace(POST, rate=8, failing={"BACKEND": 2.0}))

    assert read(LOST_AFTER_STAGE, "safety", *stages).value == pytest.approx(0)


def test_requests_refused_at_a_queue_are_missing_before_the_stage() -> None:
    stages = (CHAT, PRE, replace(SAFETY, rate=7), replace(POST, rate=7))

    assert read(LOST_BEFORE_STAGE, "safety", *stages).value == pytest.approx(180)
    assert read(LOST_BEFORE_STAGE, "post", *stages).value == pytest.approx(0)


def test_fewer_than_none_are_never_lost_before_a_stage() -> None:
    stages = (CHAT, PRE, replace(SAFETY, rate=11), POST)

    assert read(LOST_BEFORE_STAGE, "safety", *stages).value == 0


def test_a_growing_queue_is_not_lost_before_the_stage() -> None:
    stages = (CHAT, PRE, replace(SAFETY, rate=7, pending_growth=3.0), replace(POST, rate=7))

    assert read(LOST_BEFORE_STAGE, "safety", *stages).value == pytest.approx(0)


def test_the_first_and_the_last_stage_have_no_neighbour_to_compare_with() -> None:
    stages = (CHAT, PRE, SAFETY, POST)

    assert read(LOST_BEFORE_STAGE, "pre", *stages).missing is Missing.NOT_EXPORTED
    assert read(LOST_AFTER_STAGE, "post", *stages).missing is Missing.NOT_EXPORTED


def test_a_model_of_two_ensembles_tells_no_flow() -> None:
    """Whose request went where cannot be told from counters."""
    other = Stage("other", rate=3, config=chain("other", "pre", "post"))

    assert read(LOST_AFTER_STAGE, "pre", CHAT, other, PRE, SAFETY, POST).missing is Missing.NOT_EXPORTED


def test_a_restart_loses_no_request() -> None:
    triton = SyntheticTriton(models=(CHAT, PRE, SAFETY, POST), alter=restarted_at(6))

    assert LOST_AFTER_STAGE.read(view_of(triton.window(), "safety", None)).value == pytest.approx(0)
