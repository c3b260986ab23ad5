"""Spans whose ids and texts are made up to take more room than others: they take each other's."""

from __future__ import annotations

import random
import sys
import zlib
from collections.abc import Iterator

from diagnostics.service.otlp_intake import LONGEST_TEXT, without_secrets
from diagnostics.service.own.metrics import OwnMetrics
from diagnostics.service.span_routing import PERIOD, SpanSampler
from diagnostics.window.traces import SpanStore, weight
from diagnostics.wire.spans import MARKS, RANKS, Span, rank, read_json, write_json

LENGTH = 64


def low_ranks() -> Iterator[str]:
    """Yield ids of rank 0: CRC-32 is linear, so of 64 characters 32 can be chosen to undo what the others do."""
    draw = random.Random(1)

    def checksum(bits: int) -> int:
        return zlib.crc32(f"{bits:0{LENGTH}b}".encode())

    flips = {1 << at: checksum(1 << at) ^ checksum(0) for at in range(LENGTH)}
    basis: dict[int, tuple[int, int]] = {}
    for flip, changed in flips.items():
        bits = flip
        while changed and (high := changed.bit_length()) in basis:
            changed, bits = changed ^ basis[high][0], bits ^ basis[high][1]
        if changed:
            basis[changed.bit_length()] = (changed, bits)
    while True:
        bits = draw.getrandbits(LENGTH)
        left = checksum(bits)
        while left:
            change, flipped = basis[left.bit_length()]
            left, bits = left ^ change, bits ^ flipped
        yield f"{bits:0{LENGTH}b}"


def forged(count: int, text: str = "") -> list[Span]:
    ids = low_ranks()
    return [Span(next(ids), "b", "", text or "x", 1, 2, text, 0, text, text, None, {}, text) for _ in range(count)]


def held(store: SpanStore) -> int:
    return sum(map(len, store.held().spans))


def test_ids_of_the_lowest_rank_do_not_fill_the_store():
    spans = forged(2_000)
    assert {rank(span.trace) for span in spans} == {0}
    assert len({span.trace for span in spans}) == 2_000
    store = SpanStore(100)
    for span in spans:
        store.add(write_json([span]))
        assert held(store) <= 100
    assert store.counts.dropped == 2_000 - held(store)


def test_ids_of_the_lowest_rank_are_bounded_where_they_arrive():
    per_second = 10
    sampling = SpanSampler(per_second, OwnMetrics(), lambda: 0.0)
    kept = sum(len(sampling.sift("chat", forged(100))) for _ in range(100))
    assert kept <= 8 * per_second * PERIOD


def test_a_burst_of_honest_traces_is_not_cut_where_it_arrives():
    per_second = 10
    sampling = SpanSampler(per_second, OwnMetrics(), lambda: 0.0)
    draw = random.Random(2)
    spans = [span._replace(trace=f"{draw.getrandbits(128):032x}") for span in forged(1) * 50_000]
    for at in range(0, len(spans), 500):
        batch = spans[at : at + 500]
        kept = sampling.sift("chat", batch)
        limit = sampling.limit("chat")
        assert len(kept) >= sum(rank(span.trace) < limit for span in batch)
    assert sampling.limit("chat") < RANKS


def test_spans_full_of_text_take_as_much_memory_as_usual_ones():
    text = "\N{GRINNING FACE}" * 10_000
    (span,) = map(without_secrets, forged(1, text))
    assert len(span.name.encode()) <= LONGEST_TEXT
    full = span._replace(marks={name: 10**18 + at for at, name in enumerate(MARKS)})
    texts = (full.name, full.service, full.model, full.version, full.instance)
    size = sum(map(sys.getsizeof, (*texts, full.trace, full.marks, full, *full.marks.values())))
    assert size <= 2 * 1024 * weight(full)
    store = SpanStore(100)
    for number in range(200):
        store.add(write_json([full._replace(trace=f"{number:032x}")]))
        assert sum(weight(one) for trace in store.held().spans for one in trace) <= 100
    store.forget(before=3)
    assert held(store) == 0


def test_a_usual_span_counts_once():
    usual = Span("a" * 32, "b" * 16, "", "Model", 1, 2, "triton", 0, "tensorrt_llm", "1", None, dict.fromkeys(MARKS, 1))
    assert weight(usual) == 1


def test_an_id_of_other_letters_is_none():
    span = forged(1)[0]._replace(trace="\N{GRINNING FACE}" * 32)
    assert read_json(write_json([span]), lambda _: None) == 1


def honest(count: int, draw: random.Random) -> list[Span]:
    return [span._replace(trace=f"{draw.getrandbits(128):032x}") for span in forged(1) * count]


def test_ids_of_the_lowest_rank_leave_honest_traces_their_share_where_they_arrive():
    """Fifty forged spans beside each honest one: before, none of these was kept."""
    now = 0.0
    sampling = SpanSampler(100, OwnMetrics(), lambda: now)
    draw, made, came, kept = random.Random(3), forged(1_000), 0, 0
    for _ in range(int(4 * PERIOD)):
        now += 1.0
        for _ in range(4):
            sampling.sift("chat", made)
            mine = honest(20, draw)
            traces = {span.trace for span in sampling.sift("chat", [*made[:250], *mine])}
            came += len(mine)
            kept += sum(span.trace in traces for span in mine)
    assert kept > came / 2


def test_ids_of_the_lowest_rank_leave_honest_traces_their_room_in_the_store():
    store, draw, ids = SpanStore(1_000), random.Random(4), low_ranks()
    (usual,) = forged(1)
    mine = honest(500, draw)
    for number, one in enumerate(mine):
        store.add(write_json([one, *(usual._replace(trace=next(ids)) for _ in range(20))]))
        assert held(store) <= 1_000, number
    traces = {spans[0].trace for spans in store.held().spans}
    assert sum(one.trace in traces for one in mine) > 400
