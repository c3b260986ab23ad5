from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from diagnostics.cli.main import main
from diagnostics.cli.slo_sources import reports_from
from diagnostics.render.formats.markdown import write as as_markdown
from diagnostics.render.slo.document import shares, slo_document
from diagnostics.render.slo.json import slo_report, slo_schema
from diagnostics.slo.burn import DAY
from diagnostics.slo.reading import read_slos
from exporters.sources.access import SourceOptions
from tests.render.schemas import closed

CAPTURE = Path(__file__).parents[2] / "fixtures/captures/cpu-handed-single-instance.tar.xz"
SLOS = """\
slo:
  - {name: chat-latency, objective: 0.99, ensemble: chat, latency: 500ms}
  - {name: chat-availability, objective: 0.999, ensemble: chat, availability: true}
  - {name: absent, objective: 0.999, ensemble: talk, availability: true}
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("slos") / "slos.yaml"
    path.write_text(SLOS)
    return str(path)


def test_a_recording_tells_what_took_the_budget(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["slo", str(CAPTURE), "--slo", file, "--period", "7d"]) == 0
    reported = " ".join(capsys.readouterr().out.split())
    assert "chat-latency: 99 % of requests to chat within 500 ms, over 7 d (its own period is 30 d)" in reported
    assert "0.1 % (0.072 % to 0.15 %) of the budget of " in reported
    assert "(from traces)" in reported
    assert "51 % of the time went to single-instance-serialization of safety on triton-0" in reported
    assert "49 % of the time is unexplained" in reported
    assert "1,371 events, 0 bad (from metrics)" in reported


def test_what_is_measured_and_what_is_extrapolated_are_told_apart(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["slo", str(CAPTURE), "--slo", file]) == 0
    reported = " ".join(capsys.readouterr().out.split())
    assert "measured in 36.1 s: 1,371 events, 0 bad" in reported
    assert "is spent; the budget is extrapolated from 36.1 s of traffic and moves with it" in reported
    assert "over 5 min, of which 36.1 s were measured" in reported
    assert "extrapolated from the last 36.1 s, the budget is spent in" in reported


def test_of_a_period_that_was_measured_whole_nothing_is_extrapolated(file: str) -> None:
    reports, _ = reports_from(
        [str(CAPTURE)], read_slos([Path(file)]), period=None, config_file=None, deployment=None, options=SourceOptions()
    )
    reported = as_markdown(slo_document([replace(one, seen=one.period) for one in reports]))
    assert "is spent" in reported
    assert "the budget is extrapolated" not in reported
    assert "measured in" not in reported


def test_the_report_meets_its_schema_and_markdown_says_the_same(file: str) -> None:
    slos = read_slos([Path(file)])
    reports, missed = reports_from(
        [str(CAPTURE)], slos, period=7 * DAY, config_file=None, deployment=None, options=SourceOptions()
    )
    assert missed is None
    found = slo_report(reports)
    jsonschema.validate(found, closed(slo_schema()))
    latency, _, absent = found["slos"]
    assert latency["period"]["seconds"] == 7 * DAY
    assert latency["causes"][0]["check"] == "single-instance-serialization"
    assert sum(one["share"] for one in latency["causes"]) + latency["unexplained"] == pytest.approx(1.0)
    assert latency["silence"] is None
    assert absent["silence"].startswith("no server has a model 'talk'; there is chat, ")
    assert "- 51 % of the time went to single-instance-serialization of safety on triton-0" in as_markdown(
        slo_document(reports)
    )


@pytest.mark.parametrize(
    ("parts", "reported"),
    [
        ([0.9987, 0.0013], [">99 %", "<1 %"]),
        ([1 / 3, 1 / 3, 1 / 3], ["34 %", "33 %", "33 %"]),
        ([0.505, 0.495], ["51 %", "49 %"]),
        ([0.992, 0.004, 0.004], ["99 %", "<1 %", "<1 %"]),
        ([1.0, 0.0], ["100 %", "0 %"]),
    ],
)
def test_shares_that_are_reported_add_up(parts: list[float], reported: list[str]) -> None:
    assert shares(parts) == reported


@pytest.mark.parametrize(
    ("arguments", "code", "stated"),
    [
        ((str(CAPTURE),), 2, "name a file of them with --slo"),
        (("http://triton:8000", "--slo", "FILE"), 2, "a server only has current data"),
        ((str(CAPTURE.parent), "--slo", "FILE"), 3, "is neither a recording nor a history of diag serve"),
        ((str(CAPTURE), "--slo", "FILE", "--period", "5m"), 2, "--period: a period is between an hour and a year"),
        (("nope", "--slo", "FILE"), 2, "nope: there is no such file or folder; name a recording"),
        (("nowhere.tar.xz", "--slo", "FILE"), 3, "nowhere.tar.xz"),
        (("--slo", "FILE", "--url", "http://127.0.0.1:1"), 3, "no service answers"),
        (("prometheus+http://127.0.0.1:1", "--slo", "FILE"), 3, "127.0.0.1:1"),
        (
            ("prometheus+http://a:1", "prometheus+http://b:1", "--slo", "FILE"),
            2,
            "prometheus+http://a:1: is asked alone",
        ),
        (("rules",), 2, "name a file of them, or settings with --config.file"),
    ],
)
def test_what_cannot_be_reported_is_one_clear_line(
    arguments: tuple[str, ...], code: int, stated: str, file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["slo", *(file if one == "FILE" else one for one in arguments)]) == code
    reported = capsys.readouterr().err.strip()
    assert stated in reported
    assert "\n" not in reported


def test_rules_come_out_on_standard_output(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["slo", "rules", file]) == 0
    reported = capsys.readouterr()
    assert "triton-slo-chat-latency" in reported.out
    assert reported.err == "diag: runbook_url is relative, so alerts lead nowhere: name its address with --runbooks\n"
    assert main(["slo", "rules", "--runbooks", "https://wiki/runbooks", file]) == 0
    reported = capsys.readouterr()
    assert 'runbook_url: "https://wiki/runbooks/slo-burns-fast.md"' in reported.out
    assert reported.err == ""


def test_rules_of_the_objectives_in_settings_come_out_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = tmp_path / "diag.toml"
    slo = "[[slo]]\nname = 'up'\nobjective = 0.999\nmodel = 'm'\navailability = true\nperiod = '30d'\n"
    settings.write_text(f"[[server]]\nurl = 'http://a:8000'\n{slo}")

    assert main(["slo", "rules", "--config.file", str(settings)]) == 0
    assert "triton-slo-up" in capsys.readouterr().out


def test_a_file_of_settings_is_not_taken_for_objectives(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = tmp_path / "diag.toml"
    settings.write_text("[[server]]\nurl = 'http://a:8000'\n")
    assert main(["slo", str(CAPTURE), "--slo", str(settings)]) == 2
    reported = capsys.readouterr().err
    assert "diag.toml: is a file of settings, not of objectives; give it as --config.file" in reported
