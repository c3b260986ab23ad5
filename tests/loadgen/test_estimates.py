"""What is made of answers: blocks, intervals, knee, crossover, and what may be compared."""

from __future__ import annotations

import random
import statistics
from dataclasses import replace

import pytest

from diagnostics.bench.block import RequestLimits, RequestResult, block_of, parse_limits
from diagnostics.bench.crossover import CrossoverOutcome, compare, knee, unmatched
from diagnostics.bench.notes import notes_of
from diagnostics.bench.report import LoadPoint, estimate, resampled
from diagnostics.errors import UsageError
from tests.loadgen.reports import block, curve, diagnosed, report, workload


def answer(due: float, took: float, *, late: float = 0.0, **changed: object) -> RequestResult:
    given = {"due": due, "sent": due + late, "end": due + took, "ok": True, "code": 200} | changed
    return RequestResult(**given)  # type: ignore[arg-type]


def test_warm_up_counts_for_nothing_and_an_answer_after_the_end_counts_for_latency_only() -> None:
    answers = [answer(0.5, 9.0), answer(2.0, 0.1), answer(3.0, 0.3), answer(11.9, 0.5)]
    found = block_of(answers, start=2.0, seconds=10.0)
    assert (found.requests, found.failed) == (3, 0)
    assert found.mean == pytest.approx(0.3)
    assert found.p99 == pytest.approx(0.5)
    # The one of the warm-up was answered inside; the last one was not.
    assert found.throughput == pytest.approx(3 / 10)


def test_latency_counts_from_when_a_request_was_due() -> None:
    found = block_of([answer(0.0, 2.0, late=1.9)], start=0.0, seconds=10.0)
    assert found.mean == pytest.approx(2.0)
    assert found.late_p99 == pytest.approx(1.9)


def test_throughput_of_a_closed_loop_is_clients_over_latency_however_few_answers_there_are() -> None:
    two_clients = [answer(at + shift, 3.0) for at in (0.0, 3.0, 6.0, 9.0) for shift in (0.0, 0.4)]
    found = block_of(two_clients, start=2.0, seconds=5.0, closed=True, limits=RequestLimits(latency=4.0))
    assert found.throughput == pytest.approx(2 / 3.0)
    assert found.goodput == pytest.approx(2 / 3.0)
    assert block_of(two_clients, start=2.0, seconds=5.0).throughput == pytest.approx(4 / 5.0)
    none_began = block_of(two_clients, start=3.5, seconds=1.0, closed=True, limits=RequestLimits(latency=4.0))
    assert (none_began.requests, none_began.mean, none_began.goodput) == (0, None, None)
    assert LoadPoint(load=2, blocks=(none_began,)).estimate("throughput") is None


def test_why_most_requests_failed_is_kept() -> None:
    errors = ["full", "late", "full", ""]
    assert block_of([answer(0, 1, ok=not each, error=each) for each in errors], 0.0, 1.0).error == "full"
    assert block_of([answer(0, 1)], 0.0, 1.0).error == ""
    assert block_of([answer(0, 9, ok=False, error="no answer in 9 s")], 5.0, 1.0).error == "no answer in 9 s"


def test_failures_are_counted_and_have_no_latency() -> None:
    found = block_of([answer(0, 0.1), answer(1, 5.0, ok=False, code=503)], start=0.0, seconds=2.0)
    assert (found.requests, found.failed, found.mean) == (2, 1, pytest.approx(0.1))


def test_a_token_after_the_first_takes_the_rest_over_one_less() -> None:
    one = answer(0.0, 1.0, first=0.2, tokens=5)
    assert (one.ttft, one.tpot) == (pytest.approx(0.2), pytest.approx(0.2))
    assert answer(0.0, 1.0, first=0.2).tpot is None
    assert answer(0.0, 1.0, first=0.2, tokens=1).tpot is None


def test_tokens_that_one_answer_does_not_tell_are_unknown_of_all() -> None:
    found = block_of([answer(0, 1, tokens=8), answer(0, 1)], start=0.0, seconds=1.0)
    assert (found.tokens, found.token_throughput) == (None, None)


@pytest.mark.parametrize(
    ("limits", "good"),
    [
        (RequestLimits(latency=0.5), 1),
        (RequestLimits(latency=2.0, ttft=0.3), 1),
        (RequestLimits(latency=2.0), 2),
        (RequestLimits(tpot=0.1), None),
        (RequestLimits(), None),
    ],
)
def test_goodput_counts_what_kept_every_limit(limits: RequestLimits, good: int | None) -> None:
    answers = [answer(0, 0.4, first=0.1), answer(0, 1.0, first=0.6), answer(0, 0.1, ok=False)]
    assert block_of(answers, start=0.0, seconds=2.0, limits=limits).good == good


@pytest.mark.parametrize("text", ["latency", "latency < x", "speed < 1s", "ttft < 0s", "p95 < 1s", "latency < 300"])
def test_a_limit_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="write latency, ttft, tpot"):
        parse_limits([text])


def test_limits_are_read() -> None:
    assert parse_limits(["latency < 500ms", "tpot<=30ms"]) == RequestLimits(latency=0.5, tpot=0.03)


def test_an_interval_is_students() -> None:
    found = estimate([9.0, 10.0, 11.0])
    assert found is not None
    assert found.margin == pytest.approx(4.303 / 3**0.5)
    assert estimate([9.0]).margin is None  # type: ignore[union-attr]
    assert estimate([9.0, None]) is None


def test_a_bootstrap_mean_spreads_as_a_mean_does() -> None:
    chance = random.Random(1)
    values = [9.0, 10.0, 12.0]
    drawn = [resampled(values, chance) for _ in range(4000)]
    assert statistics.stdev(drawn) == pytest.approx(statistics.stdev(values) / 3**0.5, rel=0.05)


SATURATING = {1: [0.1] * 3, 2: [0.1] * 3, 4: [0.1, 0.101, 0.102], 8: [0.2] * 3, 16: [0.4] * 3}


def test_the_knee_of_a_closed_loop_is_where_its_bottleneck_is_full() -> None:
    found = knee(curve(SATURATING).points)
    assert found is not None
    assert (found.load, found.low, found.high, found.below, found.above) == (4, 4, 4, False, False)


def test_a_knee_beyond_the_loads_is_reported_as_such() -> None:
    rising = {n: [0.1] * 2 for n in (1, 2, 4)}
    falling = {n: [0.1 * n] * 2 for n in (1, 2, 4)}
    assert knee(curve(rising).points).above  # type: ignore[union-attr]
    assert knee(curve(falling).points).below  # type: ignore[union-attr]
    assert knee(curve({1: [0.1], 2: [0.1]}).points) is None


def test_one_block_does_not_tell_how_sure_a_knee_is() -> None:
    found = knee(curve({n: each[:1] for n, each in SATURATING.items()}).points)
    assert found is not None
    assert (found.load, found.low, found.high) == (4, None, None)


QUICK_THEN_SLOW = {1: [0.10, 0.101, 0.102], 4: [0.2, 0.201, 0.202], 16: [0.8, 0.81, 0.82]}
SLOW_THEN_QUICK = {1: [0.2, 0.201, 0.202], 4: [0.2, 0.202, 0.204], 16: [0.4, 0.41, 0.42]}


def test_curves_that_cross_do_so_between_the_loads_that_show_it() -> None:
    fast = {1: [0.1, 0.1, 0.101], 4: [0.1, 0.1, 0.101], 16: [0.4, 0.4, 0.41]}
    broad = {n: [0.2, 0.2, 0.201] for n in (1, 4, 16)}
    found = compare(curve(fast), curve(broad))
    assert found is not None
    assert found.outcome is CrossoverOutcome.CROSSOVER
    assert found.low_load_better == 0
    # 2 at 4 clients, ½ at 16: the ratio passes 1 in the middle of their logarithms.
    assert found.load == pytest.approx(8, rel=0.02)
    assert found.low is not None
    assert found.high is not None
    assert found.low <= found.load <= found.high
    turned = compare(curve(broad), curve(fast))
    assert turned is not None
    assert turned.low_load_better == 1


def test_one_that_is_better_throughout_has_no_crossover() -> None:
    halved = {n: [mean / 2 for mean in each] for n, each in QUICK_THEN_SLOW.items()}
    assert compare(curve(QUICK_THEN_SLOW), curve(halved)).outcome is CrossoverOutcome.SECOND_BETTER  # type: ignore[union-attr]
    assert compare(curve(halved), curve(QUICK_THEN_SLOW)).outcome is CrossoverOutcome.FIRST_BETTER  # type: ignore[union-attr]


def test_a_difference_inside_the_noise_is_undecided() -> None:
    noisy = {
        n: [mean * factor for mean, factor in zip(each, (0.7, 1.0, 1.35), strict=True)]
        for n, each in SATURATING.items()
    }
    found = compare(curve(SATURATING), curve(noisy))
    assert found is not None
    assert found.outcome is CrossoverOutcome.UNDECIDED


def test_one_block_a_load_decides_nothing() -> None:
    single = {n: each[:1] for n, each in QUICK_THEN_SLOW.items()}
    found = compare(curve(single), curve(SLOW_THEN_QUICK))
    assert found is not None
    assert (found.outcome, found.confidence) == (CrossoverOutcome.UNDECIDED, None)


@pytest.mark.parametrize(
    ("changed", "stated"),
    [
        ({"max_tokens": 8}, "max_tokens: unknown against 8"),
        ({"streaming": True}, "responses: whole against one by one"),
        ({"length": 64}, "length of inputs: 32 against 64"),
        ({"digest": "e"}, "contents of the requests"),
        ({"asked": ("max_tokens",)}, "asked for: nothing against max_tokens"),
        ({"text": False}, "kind: prompts against tensors"),
    ],
)
def test_what_was_not_asked_alike_is_not_compared(changed: dict[str, object], stated: str) -> None:
    one, other = curve(SATURATING), curve(SATURATING, workload=workload(**changed))
    assert unmatched(report(one), report(one)) == ()
    assert stated in "; ".join(unmatched(report(one), report(other)))


def test_answers_of_other_lengths_are_not_compared() -> None:
    def counted(tokens: float) -> LoadPoint:
        return LoadPoint(load=1, blocks=(block(10, 0.1, tokens=tokens),))

    one, other = (replace(curve({}), points=(counted(tokens),)) for tokens in (24.0, 18.0))
    assert unmatched(report(one), report(other)) == ("tokens of an answer: 24 against 18",)
    assert unmatched(report(one), report(one, loop="open")) == ("loop: closed against open",)


def test_a_cause_is_named_where_most_blocks_have_it() -> None:
    def point(*causes: str) -> LoadPoint:
        blocks = (block(1, 1, diagnosis=diagnosed(cause, "degraded" if cause else "healthy")) for cause in causes)
        return LoadPoint(load=1, blocks=tuple(blocks))

    found, count = point("a of m", "", "a of m").diagnosed()
    assert found is not None
    assert (found.cause, count) == ("a of m", 2)
    found, count = point("a of m", "", "").diagnosed()
    assert found is not None
    assert (found.cause, found.verdict, count) == ("", "healthy", 2)
    found, count = point("a of m", "b of m", "c of m").diagnosed()
    assert found is not None
    assert (found.cause, found.verdict, count) == ("", "degraded", 3)
    assert found.text.startswith("causes differ: ")
    assert LoadPoint(load=1, blocks=(block(1, 1),)).diagnosed() == (None, 0)


def test_what_limits_the_numbers_is_reported() -> None:
    sent = workload(max_tokens=24, asked=("max_tokens", "greedy"), streaming=True)
    points = [
        LoadPoint(load=1, blocks=(block(1, 1, client_busy=0.1, late_p99=0.01, fewest_tokens=20, most_tokens=24),)),
        LoadPoint(load=64, blocks=(block(1, 1, client_busy=0.95, late_p99=0.2),)),
    ]
    notes = " ".join(notes_of(sent, points))
    assert "no input for min_tokens, ignore_eos: answers may be shorter than 24 tokens" in notes
    assert "tokens are unknown" in notes
    assert "no time to first token" in notes
    assert "20 to 24 tokens, not 24 each" in notes
    assert "client itself was busy at 64:" in notes
    assert "sent late at 64," in notes
    assert not list(notes_of(workload(), points[:0]))


def test_what_a_measured_time_is_too_short_for_is_reported() -> None:
    def reported(rate: float = 1.0, *, closed: bool = True, warm_up: float = 2.0, **changed: object) -> str:
        points = [LoadPoint(load=4, blocks=(block(rate, 1, **changed),))]
        return " ".join(notes_of(workload(), points, closed=closed, warm_up=warm_up))

    assert "no request began in a measured time at 4" in reported(requests=0)
    assert reported(requests=0, error="full") == "requests failed at 4, most of them with: full"
    assert "p99 is the longest of a block's requests at 4" in reported(requests=99)
    assert not reported(requests=100)
    assert not reported(17.0, requests=200, closed=False)
    assert "answers fell behind the requests at 4" in reported(15.0, requests=200, closed=False)
    assert not reported(15.0, requests=200, closed=True)
    assert "an answer takes longer than the warm-up at 4" in reported(warm_up=0.5)
    assert "takes longer than the warm-up" not in reported(15.0, requests=200, closed=False, warm_up=0.5)
    assert "requests failed at 4, most of them with: full" in reported(failed=1, error="full")
