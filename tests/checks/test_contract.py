"""What every check must be, whoever wrote it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from diagnostics import checks
from diagnostics.checks.catalogue import HEADINGS, RegisteredCheck, catalogue
from diagnostics.checks.check import CheckCase, Expected, Fires, Layer, Outcome, Quiet, Suggestion, Unknown
from diagnostics.evidence.ledger import Ledger
from diagnostics.signals.settings import INSTANCES, MAX_BATCH_SIZE
from diagnostics.signals.signal import Missing, Signal
from diagnostics.tuning.changes import BlastRadius, blast_radius
from diagnostics.tuning.patch import patch
from diagnostics.units import Unit
from diagnostics.wire.model_config import DynamicBatching, InstanceGroup, ModelConfig, QueuePolicy
from tests.checks.designed import DESIGNED
from tests.checks.new_check import left_to_write
from tests.checks.stated import WORDS_OF, decided

ALL = tuple(catalogue().values())
CASES = tuple((check, case) for check in ALL for case in check.cases)
each_check = pytest.mark.parametrize("check", ALL, ids=lambda check: check.id)
each_case = pytest.mark.parametrize(("check", "case"), CASES, ids=[f"{check.id} {case.title}" for check, case in CASES])
MOST_LINES, MOST_CASES = 60, 6
# It tells of what is unknown, so it always knows.
NEVER_UNKNOWN = {"telemetry-blind-spot"}


def word(outcome: Outcome) -> Expected:
    return WORDS_OF[type(outcome)]


@each_check
def test_the_runbook_has_its_five_headings_in_order(check: RegisteredCheck) -> None:
    assert tuple(check.sections()) == HEADINGS
    assert all(check.sections().values())


@each_check
def test_nothing_is_left_to_fill_in(check: RegisteredCheck) -> None:
    assert not left_to_write(Path(checks.__path__[0]) / f"{check.id.replace('-', '_')}.py")


@each_check
def test_the_runbook_is_short_and_begins_with_one_sentence(check: RegisteredCheck) -> None:
    lines = check.runbook.splitlines()

    assert len(lines) <= MOST_LINES
    assert lines[0].endswith(".")
    assert lines[1] == ""


@each_check
def test_the_id_is_the_file_and_a_designed_one_on_its_layer(check: RegisteredCheck) -> None:
    file = Path(checks.__path__[0]) / f"{check.id.replace('-', '_')}.py"

    assert file.is_file()
    assert check.check.layer is DESIGNED.get(check.id), "add the id to its layer in tests/checks/designed.py"


@each_check
def test_checks_that_the_runbook_names_exist_or_are_designed(check: RegisteredCheck) -> None:
    meant = set(re.findall(r"`([a-z]+(?:-[a-z]+)+)`", check.runbook))

    assert meant <= set(DESIGNED), meant - set(DESIGNED)


@each_check
def test_limits_have_a_unit_and_a_reason(check: RegisteredCheck) -> None:
    for name, limit in check.check.limits.items():
        assert isinstance(limit.unit, Unit), name
        assert len(limit.because.split()) >= 5, name


@each_check
def test_cases_are_few_and_show_it_firing_quiet_and_unknown(check: RegisteredCheck) -> None:
    expected = {case.expect for case in check.cases}

    assert len(check.cases) <= MOST_CASES
    assert len({case.title for case in check.cases}) == len(check.cases)
    assert expected >= {Expected.FIRES, Expected.QUIET}
    assert Expected.UNKNOWN in expected or check.id in NEVER_UNKNOWN


@each_case
def test_a_case_is_decided_as_it_says(check: RegisteredCheck, case: CheckCase) -> None:
    outcome, _ = decided(check, case.readings)

    assert word(outcome) is case.expect, outcome


@each_check
def test_a_case_is_decided_the_same_twice_over(check: RegisteredCheck) -> None:
    for case in check.cases:
        first, second = (decided(check, case.readings) for _ in range(2))

        assert first[0] == second[0], case.title
        assert first[1].lines == second[1].lines, case.title


@each_check
def test_evidence_carries_values_units_and_limits(check: RegisteredCheck) -> None:
    for case in check.cases:
        outcome, ledger = decided(check, case.readings)
        compared = [line for line in ledger.lines if line.limit is not None]

        assert compared or check.id in NEVER_UNKNOWN or not isinstance(outcome, Fires), case.title
        for line in compared:
            assert line.sign in ("<", "<=", ">", ">="), case.title
            if line.reading.value is not None:
                assert line.reading.unit.show(line.reading.value) not in ("", "unknown"), case.title
                assert line.reading.source, case.title


def fired(check: RegisteredCheck) -> Iterator[tuple[CheckCase, Fires, Ledger]]:
    """Yield the cases in which a check fires, with what it says."""
    for case in check.cases:
        outcome, ledger = decided(check, case.readings)
        if isinstance(outcome, Fires):
            yield case, outcome, ledger


@each_check
def test_nothing_that_a_finding_rests_on_speaks_against_it(check: RegisteredCheck) -> None:
    for case, _, ledger in fired(check):
        assert not [line for line in ledger.lines if line.met is False and not line.alternative], case.title


@each_check
def test_a_finding_names_its_subject_and_explains_no_more_than_there_is(check: RegisteredCheck) -> None:
    for case, outcome, ledger in fired(check):
        assert outcome.summary, case.title
        assert "None" not in outcome.summary, case.title
        assert 0 <= outcome.failed_share <= 1, case.title
        assert all(claim.seconds >= 0 for claim in outcome.claims), case.title
        assert 0 < ledger.confidence() <= 1, case.title
        assert sum(claim.seconds for claim in outcome.claims) <= outcome.saved_seconds * (1 + 1e-9), case.title
        assert outcome.suggestion is not None, case.title


@each_check
def test_an_unknown_case_says_which_signal_is_missing_and_why(check: RegisteredCheck) -> None:
    for case in check.cases:
        outcome, _ = decided(check, case.readings)
        if isinstance(outcome, Unknown):
            assert isinstance(outcome.reason, Missing), case.title
            assert outcome.signal, case.title


FILE = """name: "model"
backend: "python"
max_batch_size: 16  # fits the card
dynamic_batching {
  max_queue_delay_microseconds: 60000
  default_queue_policy { max_queue_size: 4 }
}
instance_group [ { kind: KIND_GPU count: 1 } ]
input [ { name: "IN" data_type: TYPE_FP32 dims: [ 4 ] } ]
"""
EFFECTIVE = ModelConfig(
    name="model",
    backend="python",
    max_batch_size=16,
    instance_groups=(InstanceGroup(kind="KIND_GPU", count=1),),
    dynamic_batching=DynamicBatching(max_queue_delay_seconds=0.06, queue_policy=QueuePolicy(max_queue_size=4)),
)
# A change of this kind is only proposed to a model that does not have the block yet.
WITHOUT_BATCHING = FILE.replace(FILE[FILE.index("dynamic_batching") : FILE.index("instance_group")], "")


def proposals() -> Iterator[tuple[str, Suggestion]]:
    for check, case in CASES:
        outcome, _ = decided(check, case.readings)
        if isinstance(outcome, Fires) and outcome.suggestion and outcome.suggestion.change:
            yield f"{check.id} {case.title}", outcome.suggestion


each_proposal = pytest.mark.parametrize(
    "suggestion", [pytest.param(suggestion, id=name) for name, suggestion in proposals()]
)


@each_proposal
def test_a_proposed_change_becomes_a_patch(suggestion: Suggestion) -> None:
    change = suggestion.change
    assert change is not None
    adds_batching = any(setting.path == "dynamic_batching" and setting.value for setting in change.settings)
    text = WITHOUT_BATCHING if adds_batching else FILE
    made = patch(change, file_text=text, path="model/config.pbtxt", effective=EFFECTIVE)

    assert made.base == "file"
    assert made.text.startswith("--- a/model/config.pbtxt")
    assert isinstance(blast_radius(change, backend="python"), BlastRadius)


@each_proposal
def test_a_proposed_change_can_be_pasted_where_the_file_is_not_at_hand(suggestion: Suggestion) -> None:
    change = suggestion.change
    assert change is not None
    made = patch(change, file_text=None, path="model/config.pbtxt", effective=EFFECTIVE)

    assert made.base == "effective"


VALUES = (0.0, 1e-9, 0.004, 0.5, 1.0, 3.0, 16.0, 1e6)


@st.composite
def readings(draw: st.DrawFn, check: RegisteredCheck) -> dict[Signal, float]:
    """Draw the readings of one case with some of them absent and some at odd values."""
    stated = dict(draw(st.sampled_from(check.cases)).readings)
    for signal in list(stated):
        match draw(st.sampled_from(("keep", "keep", "drop", "odd"))):
            case "drop":
                del stated[signal]
            case "odd":
                odd = draw(st.sampled_from(VALUES))
                # Counts of things that exist are never below one, and settings never beyond what a server takes.
                stated[signal] = min(max(odd, 1.0), 16.0) if signal in (INSTANCES, MAX_BATCH_SIZE) else odd
    return stated


@each_check
@given(data=st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_combination_of_readings_breaks_a_check(check: RegisteredCheck, data: st.DataObject) -> None:
    outcome, ledger = decided(check, data.draw(readings(check)))

    assert isinstance(outcome, Fires | Quiet | Unknown)
    assert 0 < ledger.confidence() <= 1


@each_check
def test_nothing_known_names_no_cause(check: RegisteredCheck) -> None:
    outcome, _ = decided(check, {})

    if check.check.layer is Layer.ENGINE:  # what is not known to be an engine is none of theirs
        assert isinstance(outcome, Quiet)
    else:
        assert not isinstance(outcome, Fires) or check.check.layer is Layer.TELEMETRY
