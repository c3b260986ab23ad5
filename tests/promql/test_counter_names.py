"""Counters whose names a collector of OpenTelemetry, or OpenMetrics, has made end in `_total`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from diagnostics.window.window import window_of
from diagnostics.wire.records import BodyKind, Scrape
from tests.builders import Stage, SyntheticTriton, explained, model_config
from tests.promql.stored import explained as explained_of_store
from tests.promql.stored import stored

TRITON = SyntheticTriton(models=(Stage("m", rate=38, execution=0.0245, queue=0.17, config=model_config("m")),))
GAUGE = b"nv_inference_pending"


def suffixed(scrapes: Sequence[Scrape]) -> list[Scrape]:
    """Return the scrapes with each counter's name as a collector writes it."""

    def other(body: bytes) -> bytes:
        return re.sub(rb"^(nv_\w+)(?=\{)", lambda m: m[1] + b"_total" * (not m[1].startswith(GAUGE)), body, flags=re.M)

    return [replace(s, body=other(s.body or b"")) if s.kind is BodyKind.METRICS else s for s in scrapes]


def test_a_page_of_suffixed_counters_is_read_as_tritons() -> None:
    scrapes = suffixed(TRITON.without(BodyKind.STATISTICS).scrapes())

    assert any(b"nv_inference_count_total{" in (one.body or b"") for one in scrapes)
    assert [one.check for one in explained(window_of(scrapes)).actionable] == ["single-instance-serialization"]


def test_a_store_of_suffixed_counters_is_read_as_tritons() -> None:
    explanation = explained_of_store(stored(suffixed(TRITON.scrapes(60)), with_service=True))

    assert [one.check for one in explanation.actionable] == ["single-instance-serialization"]
