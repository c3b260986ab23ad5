from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
import yaml

from diagnostics.diagnosis.proposal import LoadChange
from diagnostics.forecast.target import LatencyTarget
from diagnostics.render.formats.markdown import write as as_markdown
from diagnostics.render.text import as_text
from diagnostics.render.tuning.confirming import confirming
from diagnostics.render.tuning.document import carried_document, tuned_document
from diagnostics.render.tuning.json import carried_report, tuned_report, tuning_schema
from tests.render.schemas import closed
from tests.render.situations import HOSTILE, as_json
from tests.render.test_forecast_outputs import UNSAFE
from tests.render.tunings import CLOSED, candidate, carried, short, tuned

TUNED = {
    "certain": tuned(candidate(0.1, 2, width=0.01), packing=True),
    "likely": tuned(candidate(0.12, 2, width=0.1)),
    "as it is": tuned(candidate(0.1, 1)),
    "too slow": tuned(None, nearest=candidate(0.2, 4), shortfall=short(alone=0.3)),
    "far too slow": tuned(None, nearest=candidate(0.2, 4), shortfall=short(alone=0.5, slowest=0.1)),
    "waiting": tuned(None, nearest=candidate(0.2, 4), shortfall=short(alone=0.3, beside=0.06)),
    "full": tuned(None, nearest=candidate(None, 1), shortfall=short(full=1.3, carried=0.4)),
    "shared": tuned(None, nearest=candidate(0.2, 4), shortfall=short(full=0.6, carried=0.8)),
    "engine": tuned(None, nearest=candidate(None, 1), shortfall=short(alone=None, engine="llm")),
    "at another load": tuned(candidate(0.1, 2), load=LoadChange(rate_factor=2.0)),
}
CARRIED = {"open": carried(0.8, 1.7), "closed": carried(1.0, 1.0, closed=True), "none": carried()}


def stated(name: str) -> str:
    return " ".join(as_text(tuned_document(TUNED[name])).split())


@pytest.mark.parametrize("name", TUNED)
def test_every_tuning_meets_the_schema(name: str) -> None:
    jsonschema.validate(as_json(tuned_report(TUNED[name])), closed(tuning_schema()))


@pytest.mark.parametrize("name", CARRIED)
def test_every_list_of_carried_loads_meets_the_schema(name: str) -> None:
    jsonschema.validate(as_json(carried_report(CARRIED[name])), closed(tuning_schema()))


def test_the_schema_refuses_what_is_neither() -> None:
    report = tuned_report(TUNED["certain"])

    for wrong in ({**report, "kind": "capacity"}, {**report, "answer": {}}, {**report, "met": None}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(as_json(wrong), closed(tuning_schema()))


def test_the_answer_is_one_sentence_with_what_it_does_and_how_to_make_it() -> None:
    reported = as_text(tuned_document(TUNED["certain"]))

    assert reported.startswith(
        "chat: safety instance_group.count 1 → 2 meets p95 < 250ms: modelled 560 ms →\n  200 ms\n"
    )
    assert "not certain" not in reported
    assert re.search(
        r"safety dynamic_batching.max_queue_delay_microseconds — → 500\n +120 ms +240 ms +1 +40 %", reported
    )
    assert "39 settings and combinations by formulas, 2 of them simulated; 1 passed over" in stated("certain")
    assert "count: 2" in reported


def test_an_answer_whose_interval_passes_the_objective_is_likely_only() -> None:
    assert "1 → 2 should meet p95 < 250ms: modelled" in stated("likely")
    assert "more likely than not, but not certain: the 90 % interval reaches 340 ms; apply" in stated("likely")
    assert (tuned_report(TUNED["likely"])["certain"], tuned_report(TUNED["certain"])["certain"]) == (False, True)


def test_an_answer_of_a_model_that_does_not_account_for_the_measurement_is_possible_only() -> None:
    off = replace(TUNED["certain"], measured_mean=9.0)

    assert not tuned_report(off)["certain"]
    assert "possible, not certain: the model does not reproduce the measurement" in " ".join(
        as_text(tuned_document(off)).split()
    )


def test_an_answer_of_a_model_that_lacks_most_of_the_measured_time_has_no_interval() -> None:
    near, far = (as_text(tuned_document(replace(TUNED["certain"], measured_mean=mean))) for mean in (0.7, 0.8))

    assert "(90 %)" in near
    assert "(90 %)" not in far


def test_what_is_met_already_says_so_and_another_load_is_named() -> None:
    assert as_text(tuned_document(TUNED["as it is"])).startswith("chat meets p95 < 250ms as it is: modelled 200 ms\n")
    assert "meets p95 < 250ms at 2 times the arrivals:" in stated("at another load")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("too slow", "what would help: llm, which executes longest (90 ms), made faster by 50 ms"),
        ("far too slow", "several stages must get faster"),
        ("waiting", "60 ms of it pass outside of executions, as the window showed"),
        ("full", "the GPU is full: executions ask for 130 % of it"),
        ("full", "3 servers like this one, each with devices of its own: so set, one carries 0.4 times this load"),
        ("shared", "takes 100 ms, which leaves 150 ms for waits"),
        ("shared", "on the GPU, executions ask for 60 % of it, and slow each other"),
        ("engine", "requests wait inside llm: its engine's own limits"),
        ("engine", "it cannot keep up as it is"),
    ],
)
def test_where_nothing_meets_the_objective_the_report_says_why_and_what_would(name: str, reason: str) -> None:
    assert reason in stated(name)


def test_the_packing_says_which_models_share_a_gpu_and_what_was_not_read() -> None:
    reported = stated("certain")

    assert "with these settings, the models would fit on 2 GPUs:" in reported
    assert "one for safety (60 % of its time)" in reported
    assert "one for llm (20 % of its time, 7.5 GiB)" in reported
    assert "safety: over 50 % of a GPU's time" in reported
    assert "memory of safety was not read" in reported


def test_settings_are_listed_by_the_load_that_they_carry() -> None:
    reported = as_text(carried_document(CARRIED["open"]))

    assert "chat answers most within p95 < 250ms with safety instance_group.count 1 → 2:" in reported
    assert re.search(r"as it is +30.4/s +0.8x +240 ms +1$", reported, re.MULTILINE)
    assert "meets p95 < 250ms at any load in reach" in as_text(carried_document(CARRIED["none"]))


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_names_do_no_harm(kind: str) -> None:
    found = tuned(candidate(0.1, 2), model=HOSTILE[kind], packing=True)

    for reported in (
        as_text(tuned_document(found)),
        as_markdown(tuned_document(found)),
        confirming(found, ".sh"),
        confirming(found, ".yaml"),
    ):
        assert not UNSAFE.search(reported)
    assert "<script>" not in as_markdown(tuned_document(found))
    assert yaml.safe_load(confirming(found, ".yaml"))["profile_models"] == ["chat"]


@pytest.mark.parametrize("name", TUNED)
def test_lines_fit_80_columns_and_markdown_says_the_same(name: str) -> None:
    reported = as_text(tuned_document(replace(TUNED[name], patches=())))

    assert all(len(line) <= 80 for line in reported.splitlines())
    assert as_markdown(tuned_document(TUNED[name])).startswith("**chat")


def test_markdown_lists_carried_loads() -> None:
    assert "| as it is | 30.4/s | 0.8x | 240 ms | 1 |" in as_markdown(carried_document(CARRIED["open"]))


def test_the_exported_script_measures_each_setting_at_the_load_of_the_window(tmp_path: Path) -> None:
    script = confirming(TUNED["certain"], ".sh")
    (tmp_path / "confirm.sh").write_text(script, "utf-8")
    for name, body in {"perf_analyzer": 'echo "RUN $*"', "apply": 'echo "APPLY $*"'}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n", "utf-8")
        (tmp_path / name).chmod(0o755)

    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "APPLY": "apply"}
    command = ["/bin/bash", "confirm.sh", "--input-data", "prompts.json"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)

    runs = [line for line in done.stdout.splitlines() if line.startswith("RUN")]
    applied = [line for line in done.stdout.splitlines() if line.startswith("APPLY")]
    assert [run.split(" -f ")[1].split()[0] for run in runs] == ["now.csv", "answer.csv", "answer-2.csv"]
    assert all("-m chat" in run and "--request-rate-range=38 " in run and "--percentile=95" in run for run in runs)
    assert all(run.endswith("--input-data prompts.json") for run in runs)
    assert applied[1:] == [
        "APPLY safety.instance_group.count=2",
        "APPLY safety.dynamic_batching.max_queue_delay_microseconds=500",
    ]


def test_a_closed_loop_is_exported_with_its_clients() -> None:
    script = confirming(tuned(candidate(0.1, 2), test=CLOSED), ".sh")

    assert "point answer --concurrency-range=4 safety.instance_group.count=2" in script
    assert "-b 2 " in script


def test_the_exported_configuration_lists_the_values_of_an_ensembles_members() -> None:
    read = yaml.safe_load(confirming(TUNED["certain"], ".yaml"))

    assert read["run_config_search_mode"] == "quick"
    assert read["ensemble_composing_models"]["safety"]["model_config_parameters"] == {
        "instance_group": [{"kind": "KIND_GPU", "count": [1, 2]}],
        "dynamic_batching": {"max_queue_delay_microseconds": [500]},
    }


def test_the_exported_configuration_of_a_model_sweeps_its_own_settings() -> None:
    found = tuned(candidate(0.1, 2), ensemble=False, target=LatencyTarget.parse("p99 < 400ms"))

    read = yaml.safe_load(confirming(found, ".yaml"))

    assert read["run_config_search_disable"] is True
    assert read["profile_models"]["safety"]["parameters"] == {"request_rate": [38.0]}
    assert read["profile_models"]["safety"]["model_config_parameters"]["instance_group"][0]["count"] == [1, 2]
    assert read["constraints"] == {"perf_latency_p99": {"max": 400.0}}
