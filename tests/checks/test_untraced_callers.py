"""A model that may be what calls others: what is said of it where no trace tells."""

from __future__ import annotations

import pytest

from diagnostics.checks.catalogue import catalogue
from diagnostics.checks.check import Fires, Outcome, Unknown
from diagnostics.diagnosis.run import decide
from diagnostics.evidence.evidence import Span
from diagnostics.evidence.ledger import Ledger
from diagnostics.signals.inner_calls import FILLABLE_SHARE, NESTED_SHARE
from diagnostics.signals.signal import Missing, Reading, Signal, Subject
from diagnostics.units import Unit
from tests.stated_evidence import SUBJECT, StatedEvidence

# Others are called in step with it, and nothing tells whether they run ahead of it.
IN_STEP = Reading.of(0.9, Unit.RATIO, "statistics", low=0.0, high=0.9, estimated=True)


FEW_READS = Reading.unknown(Missing.TOO_FEW_EVENTS, Unit.RATIO, "statistics")


class _FewReads(StatedEvidence):
    def read(self, signal: Signal, on: Subject, span: Span | None = None) -> Reading:
        return FEW_READS if signal is FILLABLE_SHARE else super().read(signal, on, span)


class _InStep(StatedEvidence):
    def read(self, signal: Signal, on: Subject, span: Span | None = None) -> Reading:
        return IN_STEP if signal is FILLABLE_SHARE else super().read(signal, on, span)


def stated(check: str, kind: type[StatedEvidence] = StatedEvidence, **changes: float) -> tuple[Outcome, float]:
    """Return what a check says of its first case with other calls in it, and how sure it is."""
    registered = catalogue()[check]
    calls: dict[Signal, float] = {
        {"nested": NESTED_SHARE, "fillable": FILLABLE_SHARE}[k]: v for k, v in changes.items()
    }
    readings = {k: v for k, v in registered.cases[0].readings.items() if k is not NESTED_SHARE}
    evidence = kind({**readings, **calls})
    ledger = Ledger(evidence, evidence.entry)
    return decide(registered, ledger, SUBJECT), ledger.confidence()


@pytest.mark.parametrize("check", ["batch-size-collapse", "bls-serialization"])
def test_a_model_that_others_are_called_in_step_with_is_unknown_until_it_is_traced(check: str) -> None:
    outcome, _ = stated(check, fillable=0.53)

    assert isinstance(outcome, Unknown)
    assert outcome.signal == NESTED_SHARE.name


@pytest.mark.parametrize("calls", [{}, {"fillable": 0.47}, {"fillable": 0.9, "nested": 0.1}])
def test_batches_are_missed_where_others_fill_little_of_an_execution(calls: dict[str, float]) -> None:
    assert isinstance(stated("batch-size-collapse", **calls)[0], Fires)


def test_more_instances_help_a_caller_as_well_and_the_name_of_the_cause_is_less_sure() -> None:
    (own, sure), (perhaps, unsure) = (
        stated("single-instance-serialization"),
        stated("single-instance-serialization", _InStep),
    )

    assert isinstance(own, Fires)
    assert isinstance(perhaps, Fires)
    assert unsure < sure


def test_calls_that_run_ahead_and_may_fill_its_executions_leave_the_cause_unknown() -> None:
    outcome, _ = stated("single-instance-serialization", fillable=0.9)

    assert isinstance(outcome, Unknown)
    assert outcome.signal == NESTED_SHARE.name


@pytest.mark.parametrize("check", ["single-instance-serialization", "bls-serialization", "batch-size-collapse"])
def test_too_few_reads_to_tell_calls_in_step_leave_the_cause_unknown(check: str) -> None:
    outcome, _ = stated(check, _FewReads)

    assert isinstance(outcome, Unknown)
    assert (outcome.signal, outcome.reason) == (NESTED_SHARE.name, Missing.TOO_FEW_EVENTS)
