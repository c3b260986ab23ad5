"""Which of the reports known so far are told, and why the others are not."""

from __future__ import annotations

import re

from tests.incidents.story import stories

REPORTS = range(1, 198, 2)
UNTOLD = {
    "no figures are given": (
        17,
        35,
        65,
        67,
        81,
        83,
        87,
        91,
        101,
        119,
        149,
        155,
        157,
        167,
        177,
        181,
        189,
        193,
        197,
    ),
}
# What looks bad and is healthy, or not the server's fault: the stories that hold it.
LOOKS_BAD = {
    "batch 1 at concurrency 1": "029",
    "as many executions as requests in an engine's row": "125",
    "an odd batching block on an engine": "123",
    "an ensemble without instances": "n04",
    "small steps at batch 1": "n05",
    "a GPU with little to do": "n06",
    "a GPU at 100 % with flat latency": "n07",
    "slow executions at a low rate": "089",
    "a queue that a load test dictates": "n09",
    "durations that add up to more than wall time": "057",
    "GPU memory that does not fall after a load": "n11",
    "two models on one GPU, each slower than alone": "n07",
    "an ensemble slower than its slowest step alone": "047",
    "the first window after a start": "075",
    "the first requests of a new shape": "n15",
    "idle models": "165",
    "rows of zeros and missing gauges": "n17",
    "spans that look long at a low rate": "n06",
    "chunked context without effect": "151",
    "KV blocks free while requests wait": "127",
    "KV blocks used up while none waits": "n20",
    "no queue after adding instances": "001c",
    "a first token that comes sooner": "129",
    "a pipeline as slow as one GPU": "n23",
    "a load generator faster than another client": "n24",
}


def test_each_report_is_reported_or_says_why_not() -> None:
    reported = {int(found[0]) for story in stories() if (found := re.match(r"\d+", story.name))}
    untold = {number for numbers in UNTOLD.values() for number in numbers}

    assert not reported & untold
    assert reported | untold == set(REPORTS)


def test_each_look_alike_of_trouble_has_a_story() -> None:
    names = [story.name for story in stories()]

    for what, start in LOOKS_BAD.items():
        assert any(name.startswith(f"{start}-") for name in names), what
