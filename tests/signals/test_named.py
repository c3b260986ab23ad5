"""The list of signals that a contributor looks in."""

from __future__ import annotations

import pytest

from diagnostics.signals.triton import OUTPUT_SECONDS
from tests.signals.named import defined, main, named_signal


def test_a_signal_is_listed_once_with_its_import(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["Output_Seconds"]) == 0
    assert capsys.readouterr().out == (
        "from diagnostics.signals.triton import OUTPUT_SECONDS  # output_seconds: seconds of a model\n"
        f"    {OUTPUT_SECONDS.doc}\n"
    )


def test_every_name_of_evidence_lines_is_one_signal() -> None:
    found = [signal for _, _, signal in defined()]

    assert len(found) == len({signal.name for signal in found}) > 100
    assert named_signal("output_seconds") is OUTPUT_SECONDS
