from __future__ import annotations

import pytest

from diagnostics.cli.main import main

HEALTHY = "fixtures/captures/cpu-handed-healthy.tar.xz"
SLOW = "fixtures/captures/cpu-handed-single-instance.tar.xz"
NO_CAUSE = "fixtures/benchmark/drawn-0112.tar.xz"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ([HEALTHY, "--fail-on", "unknown"], 0),
        ([HEALTHY, "--fail-on", "warning", "--objective", "mean < 1ms"], 1),
        ([SLOW], 0),
        ([SLOW, "--fail-on", "critical"], 1),
        ([NO_CAUSE, "--fail-on", "warning"], 0),
        ([NO_CAUSE, "--fail-on", "unknown"], 1),
    ],
)
def test_the_exit_code_is_what_fail_on_asks_for(
    arguments: list[str], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", *arguments]) == code
    assert capsys.readouterr().out
