from __future__ import annotations

import re
from dataclasses import replace

import jsonschema
import pytest

from diagnostics.diagnosis.proposal import LoadChange
from diagnostics.forecast.performance import Estimate
from diagnostics.render.document import Document
from diagnostics.render.forecast.document import forecast_document, load, sweep_document
from diagnostics.render.forecast.json import forecast_report, forecast_schema, sweep_report
from diagnostics.render.formats.markdown import write as as_markdown
from diagnostics.render.text import as_text
from diagnostics.render.verification.document import verify_document
from diagnostics.render.verification.json import verify_report, verify_schema
from tests.forecast.performances import estimate
from tests.render.forecasts import WINDOW, proposal, sweep, verification
from tests.render.schemas import closed
from tests.render.situations import HOSTILE, as_json

UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069]")
PROPOSALS = {
    "better": proposal(),
    "not keeping up": proposal(mean=None),
    "more load": proposal(load=LoadChange(rate_factor=2.0, clients=4)),
}
SWEEPS = {
    "a knee": sweep(0.28, 0.123, 0.121, 0.121),
    "none keeps up": sweep(None, None),
    "still falling": sweep(0.28, 0.2, 0.1),
    "of the load": sweep(0.03, 0.05, None, model=None),
}
VERIFICATIONS = {
    "confirmed": verification(estimate(0.121, 0.006)),
    "refuted": verification(estimate(0.2, 0.006)),
    "inconclusive": verification(estimate(0.2, 0.4)),
    "nothing changed": verification(estimate(0.121, 0.006), changed=False),
    "not bounded": verification(Estimate(value=0.121, low=0.1, high=None)),
    "not measured": replace(verification(estimate(0.2, 0.4)), measures=(), block_seconds=None),
}
_WINDOWS = (WINDOW, WINDOW)


@pytest.mark.parametrize("name", PROPOSALS)
def test_every_forecast_meets_the_schema(name: str) -> None:
    jsonschema.validate(as_json(forecast_report(PROPOSALS[name])), closed(forecast_schema()))


@pytest.mark.parametrize("name", SWEEPS)
def test_every_sweep_meets_the_schema(name: str) -> None:
    jsonschema.validate(as_json(sweep_report(SWEEPS[name])), closed(forecast_schema()))


@pytest.mark.parametrize("name", VERIFICATIONS)
def test_every_verification_meets_its_schema(name: str) -> None:
    jsonschema.validate(as_json(verify_report(VERIFICATIONS[name], _WINDOWS)), closed(verify_schema()))


def test_the_schemas_refuse_what_is_neither() -> None:
    forecast, verified = forecast_report(PROPOSALS["better"]), verify_report(VERIFICATIONS["confirmed"], _WINDOWS)

    for wrong in ({**forecast, "kind": "sweep"}, {**forecast, "baseline": {}}, {**forecast, "schema_version": 2}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(as_json(wrong), closed(forecast_schema()))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(as_json({**verified, "verdict": "maybe"}), closed(verify_schema()))


def test_the_report_holds_the_numbers_under_the_names_of_the_contract() -> None:
    report = forecast_report(PROPOSALS["better"])
    end_to_end, (stage,) = report["predicted"]["end_to_end_seconds"], report["predicted"]["stages"]

    assert report["schema_version"] == 1
    assert report["assumptions"] == ["arrivals are independent"]
    assert [end_to_end[name] for name in ("mean", "p50", "p95", "p99")] == pytest.approx([0.121, 0.0968, 0.242, 0.363])
    assert end_to_end["interval90"]["mean"] == pytest.approx([0.116, 0.126])
    assert report["predicted"]["throughput_per_second"] == 38.0
    assert (stage["model"], stage["queue_seconds"]["mean"], stage["queue_seconds"]["p95"]) == ("safety", 0.001, 0.003)
    assert (stage["busy_share"], stage["batch_size_mean"]) == (0.32, 1.0)
    assert report["baseline"]["end_to_end_seconds"]["interval90"]["mean"] == [0.1, None]


def test_what_cannot_keep_up_has_no_numbers_but_a_reason() -> None:
    predicted = forecast_report(PROPOSALS["not keeping up"])["predicted"]

    assert [predicted["end_to_end_seconds"][name] for name in ("mean", "p50", "p95", "p99")] == [None] * 4
    assert predicted["stages"][0]["queue_seconds"]["mean"] is None
    assert not predicted["stable"]
    assert "more arrives at safety than it can serve" in predicted["reason"]
    assert "cannot keep up" in as_text(forecast_document(PROPOSALS["not keeping up"])).splitlines()[0]


def test_a_model_far_from_what_was_measured_says_how_much_that_matters() -> None:
    far = replace(PROPOSALS["better"].forecast, measured_mean=0.11)
    outside, most = replace(far, measured_mean=0.08), replace(far, measured_mean=0.06)

    reported, warned, missed = (
        as_text(forecast_document(replace(PROPOSALS["better"], forecast=one))) for one in (far, outside, most)
    )
    assert "mean 110 ms; modelled of the same window: mean 280 ms (+155 %): within its interval" in reported.replace(
        "\n", " "
    )
    first_lines = " ".join(warned.splitlines()[1:3])
    assert "280 ms, but 80 ms was measured. Treat this prediction as rough" in " ".join(first_lines.split())
    assert "trust the order of alternatives" in warned.replace("\n", " ")
    assert "(116 ms to 126 ms)" in warned
    assert "It lacks more than half of the measured time" in " ".join(missed.split())
    assert "trust neither the numbers nor the order" in missed.replace("\n", " ")
    assert "(116 ms to 126 ms)" not in missed
    assert "90 %" not in missed


def test_the_busy_share_of_an_engine_says_what_is_busy() -> None:
    shown = "llm is an engine: busy is the time in which it iterates, with one request or many"
    given = proposal("llm")
    before = replace(given.forecast.baseline, stages=(replace(given.forecast.baseline.stages[0], engine=True),))
    engine = replace(given, forecast=replace(given.forecast, baseline=before))

    assert shown in " ".join(as_text(forecast_document(engine)).split())
    assert shown not in " ".join(as_text(forecast_document(given)).split())


def test_what_a_request_saves_has_the_interval_of_the_difference() -> None:
    found = PROPOSALS["better"].forecast
    pair = replace(found.baseline, drawn=(0.3, 0.22)), replace(found.predicted, drawn=(0.12, 0.12))
    proposed = replace(PROPOSALS["better"], forecast=replace(found, baseline=pair[0], predicted=pair[1]))
    back = replace(proposed, forecast=replace(found, baseline=pair[1], predicted=pair[0], measured_mean=None))

    assert "on average, a request saves 159 ms (100 ms to 180 ms)" in as_text(forecast_document(proposed))
    assert "on average, a request costs 159 ms (100 ms to 180 ms)" in as_text(forecast_document(back))
    assert forecast_report(proposed)["saving_seconds"]["interval90"] == [pytest.approx(0.1), pytest.approx(0.18)]
    assert "on average" not in as_text(forecast_document(PROPOSALS["better"]))


def test_a_mean_that_the_model_gives_only_roughly_is_stated_below_the_first_line() -> None:
    """Its interval holds the measured mean, so nothing else would speak against a saving that is twice the real one."""
    measured = replace(PROPOSALS["better"].forecast, measured_mean=0.2)
    reported = " ".join(as_text(forecast_document(replace(PROPOSALS["better"], forecast=measured))).split())

    assert "The simulation gives 280 ms, but 200 ms was measured: near saturation, both are rough" in reported
    assert "near saturation, both" not in as_text(forecast_document(PROPOSALS["better"]))


def test_a_measured_percentile_stands_beside_the_modelled_one() -> None:
    proposal = replace(PROPOSALS["better"], forecast=replace(PROPOSALS["better"].forecast, measured_p95=0.6))
    reported = " ".join(as_text(forecast_document(proposal)).split())
    assert "measured over 40 s: mean 283 ms, p95 600 ms (of traced requests); modelled of the same window:" in reported


@pytest.mark.parametrize(("p95", "rough"), [(0.56, False), (0.45, True), (0.8, True)])
def test_a_percentile_that_the_model_misses_is_trusted_less_than_the_mean(p95: float, *, rough: bool) -> None:
    proposal = replace(PROPOSALS["better"], forecast=replace(PROPOSALS["better"].forecast, measured_p95=p95))
    reported = " ".join(as_text(forecast_document(proposal)).split())

    assert ("trust the mean more than the percentiles" in reported) is rough


def test_text_tells_before_and_after_and_how_to_make_the_change() -> None:
    reported = as_text(forecast_document(PROPOSALS["better"]))

    assert reported.startswith("chat: modelled mean 280 ms → 121 ms (−57 %): safety instance_group.count 1 → 3\n")
    assert re.search(r"mean +280 ms \(100 ms or more\) +121 ms \(116 ms to 126 ms\) +−57 %", reported)
    assert re.search(r"safety +169 ms → 1 ms +1 +95 % → 32 %", reported)
    assert re.search(r"rejected +0/s +0.5/s", reported)
    assert "measured over 40 s: mean 283 ms; modelled of the same window: mean 280 ms (−1 %)" in reported.replace(
        "\n", " "
    )
    assert "count: 3" in reported
    assert list(load(LoadChange(rate_factor=2638.4))) == ["2,638 times the arrivals"]
    assert "2 times the arrivals, 4 clients" in " ".join(as_text(forecast_document(PROPOSALS["more load"])).split())


@pytest.mark.parametrize("name", SWEEPS)
def test_a_sweep_has_a_row_and_a_bar_per_value_within_80_columns(name: str) -> None:
    reported = as_text(sweep_document(SWEEPS[name]))

    for point in SWEEPS[name].sweep.points:
        assert len(re.findall(rf"^{point.value} +\S", reported, re.MULTILINE)) == 2
    assert all(len(line) <= 80 for line in reported.splitlines())


def test_the_knee_is_marked_and_the_longest_p95_fills_the_plot() -> None:
    reported = as_text(sweep_document(SWEEPS["a knee"]))

    assert "knee at 2" in reported.splitlines()[0]
    assert re.search(r"^2 +123 ms.* knee$", reported, re.MULTILINE)
    assert re.search(r"^1 +█{26}░{26}  now$", reported, re.MULTILINE)
    assert sweep_report(SWEEPS["a knee"])["knee"] == "2"
    assert "no knee up to 3" in as_text(sweep_document(SWEEPS["still falling"]))
    assert "no value keeps up" in as_text(sweep_document(SWEEPS["none keeps up"]))
    assert "Kleinrock" in as_text(sweep_document(SWEEPS["of the load"]))


def test_the_highest_load_of_a_sweep_is_no_knee() -> None:
    reported = as_text(sweep_document(sweep(0.03, 0.02, model=None)))

    assert "no knee up to 2: throughput still grows faster than latency" in " ".join(reported.split())
    assert not re.search("knee$", reported, re.MULTILINE)


def test_letters_draw_the_same_bars_where_a_terminal_has_no_blocks() -> None:
    drawn = [as_text(sweep_document(SWEEPS["a knee"]), unicode=unicode) for unicode in (True, False)]

    assert "#" * 26 + "." * 26 in drawn[1]
    assert not set("█░▏▎▍▌▋▊▉") & set(drawn[1])


def test_a_verification_tells_its_verdict_first_and_what_to_do_when_it_is_open() -> None:
    reported = {name: " ".join(as_text(verify_document(one, _WINDOWS)).split()) for name, one in VERIFICATIONS.items()}

    assert reported["confirmed"].startswith("confirmed: chat: measured mean 280 ms → 121 ms (−57 %): as predicted")
    assert "changed: safety instance_group.count 1 → 3" in reported["confirmed"]
    assert reported["refuted"].startswith(
        "refuted: chat: measured mean 280 ms → 200 ms (−29 %): 67 % above the prediction"
    )
    assert "next: measure for 5 min on each side" in reported["inconclusive"]
    assert "no difference larger than 4.6 ms in the mean" in reported["nothing changed"]
    assert "change measured −159 ms (−223 ms or more)" in reported["not bounded"]


@pytest.mark.parametrize("kind", HOSTILE)
def test_no_name_breaks_out_of_any_output(kind: str) -> None:
    name = HOSTILE[kind]
    document = [
        *forecast_document(proposal(name)),
        *sweep_document(replace(sweep(0.2, 0.1), on=replace(sweep(0.2, 0.1).on, ensemble=name))),
        *verify_document(verification(estimate(0.121, 0.006), model=name), _WINDOWS),
    ]
    text, markdown = as_text(document), as_markdown(document)

    assert not UNSAFE.search(text.replace("\t", ""))
    assert not UNSAFE.search(markdown.replace("\t", ""))
    blocks = re.findall(r"(?:^\|.*\n)+", markdown, re.MULTILINE)
    assert blocks
    for block in blocks:
        assert len({len(re.findall(r"(?<!\\)(?:\\\\)*\|", row)) for row in block.splitlines()}) == 1, block


@pytest.mark.parametrize("shown", [*map(forecast_document, PROPOSALS.values()), *map(sweep_document, SWEEPS.values())])
def test_no_output_shows_a_number_that_is_none(shown: Document) -> None:
    assert not re.search(r"\b(nan|inf|None)\b", as_markdown(shown) + as_text(shown))
