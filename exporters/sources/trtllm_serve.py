"""`trtllm-serve`, TensorRT-LLM's own server: a Prometheus page, and on request its list of iterations.

The list (`GET /metrics`) hands each iteration to one reader only: an entry that is read here is missing for every other
collector, and the other way round. So it is read only where the user asks for it. Its older releases
answer an empty list after two seconds.
Sources: TensorRT-LLM, `serve/openai_server.py` (`get_iteration_stats`, the mount of `/prometheus/metrics`) and
`docs/source/commands/trtllm-serve`.
"""

from __future__ import annotations

from exporters.sources.http import HttpReader, Obstacle, ReadFailure

PAGE = "/prometheus/metrics"
_LIST = "/metrics"
NO_PAGE = (
    "trtllm-serve lists iterations here and has no page that names its model: start it with return_perf_metrics: true"
)


def iterations_url(page_url: str) -> str | None:
    """Return where the server lists its iterations, given its page; None where the page is at another path."""
    return page_url.removesuffix(PAGE) + _LIST if page_url.endswith(PAGE) else None


def read_iterations(reader: HttpReader, url: str) -> bytes:
    """Return the iterations since the last read by anyone: a JSON list, empty where the engine had none to tell.

    Raises:
        ReadFailure: there is no answer, or no list.

    """
    body = reader.read("GET", url, accept="application/json")
    if not is_list(body):
        raise ReadFailure("not a list of iterations", Obstacle.ANSWER)
    return body


def is_list(body: bytes) -> bool:
    """Return whether an answer is a JSON list; a Prometheus page never begins like one."""
    return body.lstrip()[:1] == b"["
