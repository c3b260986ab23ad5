"""Numbers that people write: digits of other scripts, of any length, and none are refused in one line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from diagnostics.cli.main import main
from diagnostics.cli.sources import moment
from diagnostics.diagnosis.change_options import changes_given, length_factor, rate_factor, sweep_given
from diagnostics.errors import DiagError, UsageError
from diagnostics.slo.reading import read_slos
from diagnostics.units import Unit, parse_duration, parse_size, parse_whole, span
from exporters.sources.access import SourceOptions

# Each is a number to `int` or `float`, or has more digits than Python reads (sys.set_int_max_str_digits).
HOSTILE = ("٣", "０３", "9" * 5000, "1_0")


@pytest.mark.parametrize("text", [*HOSTILE, "²", "", "-3", " 3"])
def test_digits_of_other_scripts_are_no_number(text: str):
    assert parse_whole(text) is None
    assert parse_duration(text) is None
    assert parse_duration(f"{text}s") is None
    assert parse_size(f"{text}MB") is None or text == " 3"


def test_the_largest_numbers_that_anybody_means_are_read():
    assert parse_whole("18446744073709551615") == 2**64 - 1
    assert parse_duration("99999999999999999999") == 1e20
    assert parse_size("1.5GiB") == 3 * 2**29


REFUSED: tuple[Callable[[str], object], ...] = (
    lambda number: changes_given([f"m.instance_group.count={number}"], ["m"]),
    lambda number: changes_given([f"m.dynamic_batching.preferred_batch_size={number}"], ["m"]),
    lambda number: changes_given([f"m.model_warmup={number}"], ["m"]),
    lambda number: changes_given([f"m.version_policy=latest:{number}"], ["m"]),
    lambda number: sweep_given(f"m.instance_group.count=1,{number}", ["m"]).changes,
    lambda number: sweep_given(f"m.instance_group.count=1..{number}", ["m"]).changes,
    lambda number: sweep_given(f"rate=1..{number}x", []),
    lambda number: rate_factor(f"{number}x", 1.0),
    lambda number: length_factor(number, 1.0, "--prompt-tokens"),
    lambda number: moment(number, 1.7e9),
    lambda number: moment(f"{number}:12", 1.7e9),
)


@pytest.mark.parametrize("number", HOSTILE, ids=["arabic", "fullwidth", "long", "underscore"])
@pytest.mark.parametrize("read", REFUSED)
def test_a_number_of_the_command_line_is_one_of_ascii(number: str, read: Callable[[str], object]):
    with pytest.raises(UsageError):
        read(number)


OBJECTIVE = """apiVersion: openslo/v1
kind: SLO
metadata: {{name: slow}}
spec:
  indicator:
    metadata: {{name: time}}
    spec:
      thresholdMetric:
        metricSource:
          type: Prometheus
          spec: {{query: 'nv_inference_request_duration_us{{model="chat"}}'}}
  timeWindow: [{{duration: {duration}, isRolling: true}}]
  objectives: [{{op: lte, value: 250000, target: 0.9}}]
"""


@pytest.mark.parametrize("duration", ["²d", "٣d", f"{'9' * 5000}d"], ids=["squared", "arabic", "long"])
def test_a_period_of_an_objective_is_one_of_ascii(duration: str, tmp_path: Path):
    file = tmp_path / "slo.yaml"
    file.write_text(OBJECTIVE.format(duration=duration))
    with pytest.raises(DiagError, match="duration is"):
        read_slos([file])


def test_a_header_that_no_request_can_carry_is_refused(capsys: pytest.CaptureFixture[str]):
    assert main(["explain", "127.0.0.1:1", "--header", "X-Scope-OrgID:٣"]) == 2
    assert "the value of X-Scope-OrgID is not ASCII" in capsys.readouterr().err


def test_a_bearer_token_that_no_header_can_carry_is_refused_without_being_shown():
    with pytest.raises(UsageError) as caught:
        SourceOptions(bearer_token="hunter2-٣")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("unit", Unit)
@pytest.mark.parametrize("value", [1e308, -1e308, 1e30])
def test_a_number_that_nothing_can_measure_is_shown_in_a_few_characters(unit: Unit, value: float):
    assert len(unit.show(value)) <= 16
    assert len(span(abs(value))) <= 16


def test_the_largest_numbers_that_a_server_counts_are_shown_in_full():
    assert Unit.COUNT.show(999_999_999_999_999) == "999,999,999,999,999"
    assert Unit.RATIO.show(12.5) == "1250 %"
