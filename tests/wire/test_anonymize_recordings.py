from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from diagnostics.wire.capture import open_capture
from diagnostics.wire.exposition import ExpositionReader
from diagnostics.wire.gpu import parse_nvml
from diagnostics.wire.host import parse_host
from diagnostics.wire.model_config import parse_model_config
from diagnostics.wire.records import BodyKind, Scrape
from diagnostics.wire.redact import Anonymizer
from diagnostics.wire.server import parse_index, parse_server, parse_statistics

CAPTURES = Path(__file__).parents[2] / "fixtures/captures"
INCIDENTS = ["gpu-handed-noisy-neighbour", "cpu-handed-cold-start", "cpu-handed-kv-exhausted"]
MODELS = ["chat", "detokenizer", "embedder", "llm", "safety", "tokenizer"]
PARSERS = {
    BodyKind.STATISTICS: parse_statistics,
    BodyKind.CONFIG: parse_model_config,
    BodyKind.INDEX: parse_index,
    BodyKind.SERVER: parse_server,
    BodyKind.NVML: parse_nvml,
    BodyKind.HOST: parse_host,
}


def scrape(kind: BodyKind, body: object, name: str = "") -> Scrape:
    raw = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    return Scrape(server="s", kind=kind, at=1.0, mono=1.0, body=raw, name=name)


def anonymized(kind: BodyKind, body: object, name: str = "") -> str:
    return Anonymizer(b"seed").apply(scrape(kind, body, name)).body.decode()


def numbers_of(parsed: object) -> list[str]:
    """Return every number of a parsed body in order; names are words, never numbers alone."""
    without_names = re.sub(r"'[^']*'", "", repr(parsed))
    return re.findall(r"(?<![\w-])-?[0-9][0-9.e+]*", without_names)


def values_of(body: bytes) -> list[str]:
    return [repr(value) for value in ExpositionReader().read(body).values]


@pytest.fixture(params=INCIDENTS)
def pairs(request) -> list[tuple[Scrape, Scrape]]:
    anonymizer = Anonymizer(b"seed")
    scrapes = open_capture(CAPTURES / f"{request.param}.tar.xz").scrapes()
    return [(scrape, anonymizer.apply(scrape)) for scrape in scrapes]


def test_an_anonymized_incident_still_parses_and_keeps_every_number(pairs):
    for before, after in pairs:
        assert after.error is None
        if before.kind is BodyKind.METRICS:
            assert values_of(after.body) == values_of(before.body)
        elif parse := PARSERS.get(before.kind):
            assert numbers_of(parse(after.body)) == numbers_of(parse(before.body))


def test_no_name_of_an_incident_survives(pairs):
    words = re.compile("|".join([*(rf"\b{model}(?:\b|_[0-9])" for model in MODELS), "triton-0", "/srv", "GPU-6ac1"]))

    for _, after in pairs:
        text = f"{after.server}\n{after.name}\n{after.body.decode()}"
        # `llm` also stands in the public family names.
        assert not words.search(re.sub(r"nv_trt_llm_\w+", "", text))


def spans(body: bytes) -> Iterator[dict]:
    for resource in json.loads(body)["resourceSpans"]:
        for scope in resource["scopeSpans"]:
            yield from scope["spans"]


def test_traces_keep_their_times_and_links(pairs):
    kept = ("traceId", "spanId", "parentSpanId", "startTimeUnixNano", "endTimeUnixNano", "events", "kind")
    for before, after in pairs:
        if before.kind is BodyKind.TRACES:
            assert [[span.get(key) for key in kept] for span in spans(after.body)] == [
                [span.get(key) for key in kept] for span in spans(before.body)
            ]


def test_one_model_has_one_pseudonym_in_every_body(pairs):
    anonymizer = Anonymizer(b"seed")
    safety = anonymizer.apply(scrape(BodyKind.CONFIG, {"name": "safety"}, "safety")).name
    found = {after.kind for _, after in pairs if safety in f"{after.name} {after.body.decode()}"}

    assert found >= {
        BodyKind.METRICS,
        BodyKind.STATISTICS,
        BodyKind.INDEX,
        BodyKind.CONFIG,
        BodyKind.REPOSITORY,
        BodyKind.LOG,
        BodyKind.TRACES,
    }
    ensemble = next(
        parse_model_config(after.body)
        for before, after in pairs
        if (before.kind, before.name) == (BodyKind.CONFIG, "chat")
    )
    assert safety in {step.model for step in ensemble.ensemble_steps}


def test_another_seed_gives_other_pseudonyms():
    names = {Anonymizer(seed).apply(scrape(BodyKind.CONFIG, {"name": "m"}, "m")).name for seed in (b"1", b"2")}

    assert len(names) == 2


def test_an_ensemble_keeps_its_shape():
    body = {
        "name": "chat",
        "ensemble_scheduling": {
            "step": [
                {"modelName": "a", "inputMap": {"IN": "IN"}, "outputMap": {"OUT": "t1"}},
                {"modelName": "b", "inputMap": {"IN": "t1"}, "outputMap": {"OUT": "OUT"}},
            ]
        },
    }
    steps = parse_model_config(anonymized(BodyKind.CONFIG, body, "chat").encode()).ensemble_steps

    assert list(steps[0].output_map.values()) == list(steps[1].input_map.values())
    assert steps[0].input_map != steps[0].output_map
    assert "t1" not in repr(steps)


def test_what_is_not_listed_does_not_stay():
    config = {
        "name": "m",
        "default_model_filename": "acme.plan",
        "metric_tags": {"customer": "acme"},
        "cc_model_filenames": {"9.0": "acme"},
        "backend": "acme_backend",
        "parameters": {
            "gpt_model_path": {"string_value": "/acme/engine"},
            "batch_scheduler_policy": {"string_value": "max_utilization"},
            "gpt_model_type": {"string_value": "acme"},
        },
        "acme": {"acme": "acme"},
    }
    text = anonymized(BodyKind.CONFIG, config, "m")

    assert "acme" not in text
    assert parse_model_config(text.encode()).parameters == {
        "batch_scheduler_policy": "max_utilization",
        "gpt_model_type": "withheld",
    }


def test_foreign_families_go_and_foreign_labels_become_pseudonyms():
    page = (
        "# HELP nv_inference_count of acme\n# TYPE nv_inference_count counter\n"
        'nv_inference_count{model="m",acme="acme",version="1"} 7 # {trace_id="acme"} 1\n'
        'acme_loans_total{model="m"} 5\nnv_gpu_utilization{gpu_uuid="GPU-acme"} 0.5\n'
    )
    text = anonymized(BodyKind.METRICS, page)
    snapshot = ExpositionReader().read(text.encode())

    assert "acme" not in text
    assert list(snapshot.values) == [7.0, 0.5]
    assert len(snapshot.layout.series[0].labels) == 3
    assert snapshot.layout.series[0].labels["version"] == "1"


def test_a_gpu_has_the_same_pseudonym_in_metrics_and_samples():
    gpu = json.loads(anonymized(BodyKind.NVML, {"gpus": [{"uuid": "GPU-1", "name": "NVIDIA H200"}]}))["gpus"][0]

    assert f'gpu_uuid="{gpu["uuid"]}"' in anonymized(BodyKind.METRICS, 'nv_gpu_utilization{gpu_uuid="GPU-1"} 1\n')
    assert gpu["name"] == "NVIDIA H200"


def test_a_log_keeps_only_lines_of_known_shape():
    log = "\n".join(
        [
            'I1127 21:20:29.512485 15351 model_lifecycle.cc:472] "loading: acme:1"',
            "E1127 21:20:29.512485 15351 model_lifecycle.cc:642] failed to load 'acme' version 1: no acme.plan",
            'I1127 21:20:31.1 15 python_be.cc:2249] "TRITONBACKEND_ModelInstanceInitialize: acme_0_1 (GPU device 0)"',
            'I1127 21:20:33.3 15 http_server.cc:4713] "Started HTTPService at acme.example:8000"',
            'I1127 21:20:33.3 15 model.py:1] "customer acme"',
            "| model_repository_path[0] | /srv/acme |",
            "Signal (15) received.",
        ]
    )
    lines = anonymized(BodyKind.LOG, log).splitlines()

    assert "acme" not in "".join(lines)
    assert [line.rpartition("] ")[2].split(" ")[0].strip('"') for line in lines] == [
        "loading:",
        "failed",
        "TRITONBACKEND_ModelInstanceInitialize:",
        "Started",
        "Signal",
    ]


def test_a_configuration_file_keeps_its_settings_and_loses_words():
    text = anonymized(
        BodyKind.REPOSITORY,
        '# for acme\nname: "m"\nbackend: "python"\nmax_batch_size: ${acme_size}\n'
        'instance_group [{ count: 2 kind: KIND_GPU name: "m_0" }]\n'
        "dynamic_batching { preferred_batch_size: [4, 8] max_queue_delay_microseconds: 100 }\n"
        'ensemble_scheduling { step [{ model_name: "a" input_map { key: "IN" value: "acme" } }] }\n'
        'parameters { key: "batch_scheduler_policy" value { string_value: "max_utilization" } }\n'
        'parameters { key: "acme_path" value { string_value: "/acme" } }\nacme_field: "acme"\n',
        "m/config.pbtxt",
    )
    model = Anonymizer(b"seed").apply(scrape(BodyKind.CONFIG, {"name": "m"}, "m")).name

    assert "acme" not in text
    assert f'name: "{model}"' in text
    assert f'count: 2 kind: KIND_GPU name: "{model}_0"' in text
    assert "{ preferred_batch_size: [4, 8] max_queue_delay_microseconds: 100 }" in text
    assert 'key: "batch_scheduler_policy" value { string_value: "max_utilization" }' in text
    assert 'backend: "python"' in text


@pytest.mark.parametrize(
    "kind", [BodyKind.METRICS, BodyKind.STATISTICS, BodyKind.CONFIG, BodyKind.TRACES, BodyKind.NVML]
)
@pytest.mark.parametrize("body", ["<html>acme</html>", '{"error": "acme"}', "\x00acme"])
def test_a_body_that_is_not_what_it_should_be_is_left_out(kind, body):
    after = Anonymizer(b"seed").apply(scrape(kind, body))

    assert after.body is None
    assert "acme" not in after.error


def test_the_reason_of_a_failed_read_names_no_host():
    failed = Scrape(server="h", kind=BodyKind.METRICS, at=1.0, mono=1.0, error="http://acme:8000: refused")
    after = Anonymizer(b"seed").apply(failed)

    assert "acme" not in after.error
    assert after.server == Anonymizer(b"seed").server("h")
