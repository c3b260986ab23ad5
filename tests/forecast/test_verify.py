from __future__ import annotations

import json
from dataclasses import replace

import pytest

from diagnostics.cli.main import main
from diagnostics.cli.verify import same_entry
from diagnostics.errors import UsageError
from diagnostics.forecast import verify as verifying
from diagnostics.forecast.fitted import Fitted
from diagnostics.forecast.performance import Performance
from diagnostics.forecast.verify import Verification, Verified, verify
from diagnostics.forecast.what_if import WhatIf
from diagnostics.signals.signal import Subject
from tests.builders import SERVER, Stage, SyntheticTriton, model_config
from tests.captures.recorded import FOLDER
from tests.forecast.performances import performance, stage

ONE = model_config("m", groups=({"kind": "KIND_CPU", "count": 1},))
TWO = model_config("m", groups=({"kind": "KIND_CPU", "count": 2},))
SLOW = Stage("m", rate=38, execution=0.0245, queue=0.17, config=ONE)
CALM = Stage("m", rate=20, execution=0.0045, queue=0.19, config=ONE)
FAST = replace(SLOW, queue=0.004, config=TWO)
by_hand = pytest.mark.usefixtures("predicted")
PAIR = [str(FOLDER / f"cpu-handed-batch-collapse{end}.tar.xz") for end in ("", "-fixed")]


@pytest.fixture
def predicted(monkeypatch: pytest.MonkeyPatch) -> list[WhatIf]:
    """Forecast by hand: 28.5 ms with a second instance, 194.5 ms without, twice that at another load."""
    wanted: list[WhatIf] = []

    def performed(fitted: Fitted, what_if: WhatIf | None = None, *, seed: int, draws: int) -> Performance:
        requested = what_if or WhatIf()
        wanted.append(requested)
        busy = stage("m", busy=0.2)
        if requested.changes:
            return performance(0.0285, width=0.002, stages=(busy,))
        return performance(0.1945 if requested.traffic is None else 0.389, width=0.02, stages=(busy,))

    monkeypatch.setattr(verifying, "performance", performed)
    return wanted


def verified(before: Stage, after: Stage, reads: int = 13) -> Verification:
    sides = (SyntheticTriton(models=(one,)).evidence(reads) for one in (before, after))
    on = Subject(server=SERVER, model="m")
    return verify(next(sides), on, next(sides), on)


def test_a_change_that_did_what_was_predicted_is_confirmed(predicted: list[WhatIf]) -> None:
    found = verified(SLOW, FAST)

    assert found.judgement.verdict is Verified.CONFIRMED
    assert [str(change) for change in found.changes] == ["instance_group.count 1 → 2"]
    assert not found.load_differs
    (measure,) = found.measures
    assert (measure.before and measure.before.value, measure.after.value) == pytest.approx((0.1945, 0.0285), rel=1e-3)
    assert [(s.path, s.value) for s in predicted[-1].changes[0].settings] == [("instance_group.count", 2)]


@by_hand
def test_a_change_that_did_nothing_is_refuted() -> None:
    assert verified(SLOW, replace(SLOW, config=TWO)).judgement.verdict is Verified.REFUTED


@by_hand
def test_where_nothing_was_changed_none_is_predicted_and_the_largest_difference_is_known() -> None:
    found = verified(CALM, CALM)

    assert found.judgement.verdict is Verified.CONFIRMED
    assert found.measures[0].predicted == found.measures[0].before


@by_hand
def test_another_load_is_predicted_at_that_load_and_only_so_far_away() -> None:
    found = verified(CALM, replace(CALM, rate=30, queue=0.385))

    assert found.load_differs
    assert found.measures[0].unchanged is not None
    assert found.measures[0].unchanged.value == 0.389
    assert found.judgement.verdict is Verified.CONFIRMED
    far = verified(CALM, replace(CALM, rate=52, queue=0.385))
    assert far.judgement.verdict is Verified.INCONCLUSIVE
    assert far.judgement.reason.startswith("2.6 times the load")


@by_hand
@pytest.mark.parametrize(
    ("after", "stated"),
    [
        (replace(FAST, config={**TWO, "parameters": {"key": {"string_value": "x"}}}), "parameters.key"),
        (replace(FAST, version="2"), "version 1 → 2"),
        (replace(FAST, config={**TWO, "backend": "onnxruntime"}), "backend"),
    ],
)
def test_what_changed_as_well_and_is_not_predicted_leaves_it_open(after: Stage, stated: str) -> None:
    found = verified(SLOW, after)

    assert found.judgement.verdict is Verified.INCONCLUSIVE
    assert stated in found.judgement.reason
    assert "not predicted" in found.judgement.reason


@by_hand
def test_a_window_of_few_reads_is_too_short_and_says_for_how_long_to_measure() -> None:
    found = verified(SLOW, FAST, reads=3)

    assert found.judgement.verdict is Verified.INCONCLUSIVE
    assert found.judgement.seconds_needed == 20.0


@by_hand
def test_a_queue_that_remembers_for_longer_than_the_window_needs_a_longer_one() -> None:
    found = verified(SLOW, SLOW)

    assert found.judgement.verdict is Verified.INCONCLUSIVE
    # A busy share of 94 %: 24.6 ms ÷ (1 − √0.94)² are 24 s, of which a window of 60 s holds two.
    assert "its queues remember for 23.7 s" in found.judgement.reason
    assert found.judgement.seconds_needed == pytest.approx(8 * 23.7, rel=0.01)


@by_hand
def test_windows_without_requests_are_inconclusive_with_the_reason() -> None:
    found = verified(replace(SLOW, rate=0.0, queue=0.0), FAST)

    assert found.judgement.verdict is Verified.INCONCLUSIVE
    assert "no request was completed" in found.judgement.reason


@by_hand
@pytest.mark.parametrize(
    ("arguments", "code", "stated"),
    [
        ([*PAIR[:1]], 2, "one capture needs two moments"),
        (["http://triton:8000", PAIR[1]], 2, "only captures can be compared"),
        (["triton:8000", PAIR[1]], 2, "only captures can be compared"),
        (["nothing.tar.xz", PAIR[1]], 3, "nothing.tar.xz: no such file"),
        (["nothing", PAIR[1]], 3, "nothing: no such file"),
    ],
)
def test_what_is_no_pair_of_windows_is_refused_in_one_line(
    arguments: list[str], code: int, stated: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", *arguments]) == code
    reported = capsys.readouterr().err
    assert stated in reported
    assert reported.count("\n") == 1


def test_windows_with_no_entry_in_common_say_what_was_called_in_each() -> None:
    other = replace(SLOW, name="other", config=model_config("other"))
    before, after = (SyntheticTriton(models=(one,)).evidence() for one in (SLOW, other))
    with pytest.raises(UsageError, match=r"in both windows \(before: m; after: other\)"):
        same_entry(before, after, None)


@by_hand
def test_captures_are_verified_and_fail_on_decides_the_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", *PAIR, "--fail-on", "refuted", "--output", "json"]) == 1
    report = json.loads(capsys.readouterr().out)

    # The forecast by hand is another deployment's.
    assert (report["verdict"], report["entry"]) == ("refuted", "embedder")
    assert [one["statistic"] for one in report["measures"]] == ["mean", "p95"]


def test_the_repaired_configuration_of_a_recorded_incident_did_what_was_predicted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["verify", *PAIR, "--fail-on", "inconclusive"]) == 0
    assert capsys.readouterr().out.startswith("confirmed: embedder: measured mean 29.2 ms → 7.5 ms")


def test_the_same_window_twice_is_refused_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", PAIR[0], PAIR[0]]) == 2
    hint = "give one from before the change, then one from after it"
    assert capsys.readouterr().err == f"diag: BEFORE AFTER: are the same window; {hint}\n"


@by_hand
def test_a_window_of_later_given_first_is_pointed_out_unless_the_prediction_holds(
    capsys: pytest.CaptureFixture[str],
) -> None:
    outputs = {}
    for pair in (PAIR, PAIR[::-1]):
        main(["verify", *pair])
        outputs[tuple(pair)] = "AFTER was recorded before BEFORE" in capsys.readouterr().out
    assert sorted(outputs.values()) == [False, True]
