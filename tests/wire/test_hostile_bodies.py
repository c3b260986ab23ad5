"""No body, however broken, ends in anything but one clear error."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diagnostics.errors import MalformedBody
from diagnostics.wire.exposition import ExpositionReader
from diagnostics.wire.gpu import parse_nvml
from diagnostics.wire.host import parse_host
from diagnostics.wire.model_config import parse_model_config
from diagnostics.wire.records import BodyKind, Scrape
from diagnostics.wire.redact import Anonymizer, redact
from diagnostics.wire.server import parse_index, parse_server, parse_statistics

PARSERS = {
    "statistics": parse_statistics,
    "configuration": parse_model_config,
    "server": parse_server,
    "index": parse_index,
    "nvml": parse_nvml,
    "host": parse_host,
    "exposition": lambda body: ExpositionReader().read(body),
}
WORDS = """
    model_stats name version inference_stats success count ns batch_stats batch_size last_inference config
    instance_group gpus dynamic_batching ensemble_scheduling step input_map parameters string_value models state
    gpm processes pid used_memory_bytes mig_mode t cpu_jiffies user clk_tck pressure_cpu meminfo MemTotal
    cgroup_cpu_max server_processes version_policy specific versions error utilization_gpu_percent
"""
KEYS = st.sampled_from(WORDS.split())
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["18446744073709551615", "some total=", "some total=x", "max 100000", "1 0", "9" * 5000, 10**400])
)
BODIES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5))
EXPOSITION = st.text('ab{}="\\,# \n\t0.eE+-_:\x00é', max_size=60).map(str.encode)


def _message(parse, body):
    try:
        parse(body)
    except MalformedBody as failure:
        return str(failure)
    return ""


@pytest.mark.parametrize("parse", PARSERS.values(), ids=PARSERS)
@given(body=st.binary(max_size=80) | EXPOSITION | BODIES.map(lambda value: json.dumps(value).encode()))
def test_any_body_parses_or_is_malformed(parse, body):
    assert _message(parse, body).isprintable()


@pytest.mark.parametrize("kind", BodyKind)
@given(body=st.binary(max_size=80) | EXPOSITION | BODIES.map(lambda value: json.dumps(value).encode()))
def test_any_body_can_be_redacted_and_anonymized(kind, body):
    scrape = Scrape(server="s", kind=kind, at=1.0, mono=1.0, body=body, name="a/config.pbtxt")

    for changed in (redact(scrape), Anonymizer(b"seed").apply(scrape)):
        assert (changed.body is None) == (changed.error is not None)
