from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diagnostics.wire.capture import open_capture
from diagnostics.wire.exposition import ExpositionReader
from diagnostics.wire.model_config import parse_model_config
from diagnostics.wire.records import BodyKind, Scrape
from diagnostics.wire.redact import REDACTED, names_a_secret, redact, scrub

CAPTURES = Path(__file__).parents[2] / "fixtures/captures"
SECRET = "hunter2-Zm9vYmFy"
CREDENTIALS = """
    token password api_key api-key apiKey APIKey x-api-key HF_TOKEN hf-token access_token AWS_SECRET_ACCESS_KEY
    aws_access_key_id client_secret authorization Proxy-Authorization db.password credentials private_key
    X-Amz-Signature refresh_tokens connection_string NGC_API_KEY passphrase
"""
HARMLESS = """
    tokenizer tokenizer_dir tokens_per eos_token end_token bad_token max_tokens first_token token_type_ids
    max_tokens_in_paged_kv_cache key kv_cache kv_cache_block_type author model version TOKENIZERS_PARALLELISM
    INPUT_TOKEN accumulate_tokens cache_key monkey total_context_tokens priority_levels
"""


def redacted(kind: BodyKind, body: object, **other: str) -> str:
    raw = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    cleaned = redact(Scrape(server="s", kind=kind, at=1.0, mono=1.0, body=raw, **other))
    return cleaned.body.decode()


@pytest.mark.parametrize(
    "name",
    CREDENTIALS.split(),
)
def test_names_of_credentials_are_known(name):
    assert names_a_secret(name)


@pytest.mark.parametrize(
    "name",
    HARMLESS.split(),
)
def test_the_words_of_the_field_are_no_credentials(name):
    assert not names_a_secret(name)


@pytest.mark.parametrize(
    "line",
    [
        "Authorization: Bearer {}",
        'curl -H "Authorization: Basic {}" http://x',
        "Cookie: session={}; other={}",
        "sent bearer {} upstream",
        "env: HF_TOKEN={} next",
        'config: {{"cmdline":{{"api-key":"{}"}}}}',
        r"escaped: {{\"password\": \"{}\"}}",
        "http://user:{}@host:8000/v2",
        "https://{}@host/v2",
        "GET /v2?sig={}&x=1",
        "--hf-token {} --verbose",
        "--hf-token={}",
        "password='{} with spaces'",
        'password="{}',
        "DB_PASSWORD: {}",
        'parameters {{ key: "api_key" value {{ string_value: "{}" }} }}',
        'parameters: {{\n key: "api_key"\n value: {{ string_value: "{}" }}\n}}',
        "-----BEGIN RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\n{}",
    ],
)
def test_no_line_of_a_log_keeps_its_secret_and_a_second_pass_changes_nothing(line):
    text = scrub(line.format(SECRET, SECRET))

    assert SECRET not in text
    assert "hunter2" not in text
    assert REDACTED in text
    assert scrub(text) == text


@pytest.mark.parametrize(
    "key",
    [
        "AKIAIOSFODNN7EXAMPLE",
        "AIza" + "x" * 35,
        "ghp_" + "a1" * 18,
        "hf_" + "aB" * 15,
        "nvapi-" + "aB3" * 10,
        "xoxb-123456789-abcdef",
        "eyJhbGciOiJI.eyJzdWIiOiIx.c2lnbmF0dXJl",
    ],
)
def test_keys_of_the_large_clouds_and_forges_are_known_by_their_shape(key):
    assert scrub(f"using {key} for it") == f"using {REDACTED} for it"


@pytest.mark.parametrize(
    "line",
    [
        'I1127 21:20:29.512485 15351 model_lifecycle.cc:472] "loading: tokenizer:1"',
        "| model_repository_path[0] | /srv/triton |",
        'input_map { key: "TOKEN" value: "t1" }',
        'nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="tokens_per",model="llm",version="1"} 64',
        'parameters { key: "tokenizer_dir" value { string_value: "/models/t" } }',
        "end_token: 50256",
    ],
)
def test_harmless_lines_stay_as_they_are(line):
    assert scrub(line) == line


def test_a_configuration_loses_its_secret_parameters_and_still_parses():
    config = {
        "name": "m",
        "parameters": {
            "api_key": {"string_value": SECRET},
            "endpoint": {"string_value": f"https://u:{SECRET}@host/x"},
            "tokenizer_dir": {"string_value": "/t"},
        },
        "ensemble_scheduling": {
            "step": [{"model_name": "a", "input_map": {"TOKEN": "token"}, "output_map": {"TOKEN": "out"}}]
        },
    }
    parsed = parse_model_config(redacted(BodyKind.CONFIG, config, name="m").encode())

    assert parsed.parameters == {
        "api_key": REDACTED,
        "endpoint": f"https://{REDACTED}@host/x",
        "tokenizer_dir": "/t",
    }
    assert parsed.ensemble_steps[0].input_map == {"TOKEN": "token"}


def test_trace_attributes_and_argument_lists_lose_their_secrets():
    body = {
        "attributes": [
            {"key": "http.request.header.authorization", "value": {"stringValue": SECRET}},
            {"key": "http.url", "value": {"stringValue": f"http://x/?access_token={SECRET}"}},
        ],
        "env": [{"name": "NGC_API_KEY", "value": SECRET}],
        "args": ["--api-key", SECRET, "--port", "8000"],
        "nested": {"credentials": {"user": SECRET, "pin": 1234, "list": [SECRET]}},
    }
    text = redacted(BodyKind.TRACES, body)

    assert SECRET not in text
    assert "1234" not in text
    assert json.loads(text)["args"] == ["--api-key", REDACTED, "--port", "8000"]


def test_secret_labels_go_and_the_page_still_parses():
    text = redacted(BodyKind.METRICS, f'vllm:x{{api_key="{SECRET}\\"{SECRET}",model="m"}} 5\n')
    snapshot = ExpositionReader().read(text.encode())

    assert SECRET not in text
    assert snapshot.layout.series[0].labels == {"api_key": REDACTED, "model": "m"}
    assert list(snapshot.values) == [5.0]


@pytest.mark.parametrize("line", ["# HELP x token: {}", "password: 12345678", 'x{{a="b"}} 1 # {{token="{}"}} 1'])
def test_help_texts_exemplars_and_pages_that_are_no_metrics_are_cleaned_too(line):
    text = redacted(BodyKind.METRICS, line.format(SECRET) + "\n")

    assert SECRET not in text
    assert "12345678" not in text


def test_the_server_name_and_the_error_are_cleaned_too():
    scrape = Scrape(
        server=f"http://u:{SECRET}@h",
        kind=BodyKind.METRICS,
        at=1.0,
        mono=1.0,
        error=f"GET http://u:{SECRET}@h/metrics: timed out",
    )
    cleaned = redact(scrape)

    assert SECRET not in cleaned.server + cleaned.error


def test_a_binary_body_is_left_out_with_the_reason():
    cleaned = redact(Scrape(server="", kind=BodyKind.TRACES, at=1.0, mono=1.0, body=b"\x0a\xff" + SECRET.encode()))

    assert cleaned.body is None
    assert "binary" in cleaned.error


def test_recorded_incidents_hold_no_secret_and_come_through_untouched():
    for scrape in open_capture(CAPTURES / "cpu-handed-kv-exhausted.tar.xz").scrapes():
        assert redact(scrape) is scrape


@given(
    st.sampled_from(["token", "password", "x-api-key", "HF_TOKEN", "client_secret"]),
    st.text("abcXYZ0189+/_.-", min_size=8, max_size=40),
    st.sampled_from(['{}="{}"', "{}='{}'", "{}={}", "{}: {}", '"{}": "{}"', "--{} {}", "?{}={}&x", "x {}={}, y"]),
    st.text("ab =:,\"' \n{}", max_size=20),
)
def test_a_value_under_a_secret_name_never_stays(name, value, shape, around):
    value = f"Q{value}"

    assert value not in scrub(f"{around}\n{shape.format(name, value)}\n{around}")


@given(st.text(max_size=60))
def test_scrubbing_twice_is_scrubbing_once(text):
    once = scrub(text)

    assert scrub(once) == once
