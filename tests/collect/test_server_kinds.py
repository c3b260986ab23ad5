"""Every kind of server is known by its page: in saved files, at an address and in a store."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import pytest
from fake_triton import FakeServer, page

from diagnostics import names
from diagnostics.cli.main import main
from diagnostics.diagnosis.explanation import Explanation, WindowFacts, explain
from diagnostics.errors import CollectError
from diagnostics.evidence.evidence import WindowEvidence
from diagnostics.signals.engine import ENGINE_BLOCK_TOKENS, ENGINE_KV_BLOCKS
from diagnostics.signals.signal import Scope
from diagnostics.signals.triton import QUEUE_SECONDS
from diagnostics.window.points import Counter
from diagnostics.window.view import METRICS
from diagnostics.window.window import window_of
from diagnostics.wire.engine import EngineSample
from diagnostics.wire.exposition import ExpositionReader
from diagnostics.wire.records import BodyKind, Scrape
from diagnostics.wire.servers.catalogue import kinds_of, named, server_kinds
from diagnostics.wire.servers.kind import ServerKind
from docs.servers_table import deciding
from exporters.sources.access import SourceOptions
from exporters.sources.triton import discover

PAGES = {one.stem: one.read_bytes() for one in sorted((Path(__file__).parent / "pages").glob("*.txt"))}
UNREAD = {
    "dynamo_worker": "a worker of NVIDIA Dynamo",
    "tgi": "Text Gen",
    "prometheus": "prometheus+http://",
}
OPTIONS = SourceOptions(timeout=2.0)
# What a kind can state of an engine: the fields of a sample, and what these follow from.
MEANINGS = {field.name for field in fields(EngineSample)} - {"at", "static_batching"} | {
    *("queued", "most_active", "kv_share", "kv_tokens", "kv_pages", "page_tokens", "prefix_misses"),
}


def test_there_is_a_page_for_every_kind() -> None:
    shown = {kind.name for body in PAGES.values() for kind in kinds_of(ExpositionReader().read(body).layout)}

    assert shown == {kind.name for kind in server_kinds()}


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("dynamo_frontend_idle", "NVIDIA Dynamo's frontend"),
        ("dynamo_mocker_idle", "a worker of NVIDIA Dynamo with vLLM"),
        ("dynamo_worker", "a worker of NVIDIA Dynamo"),
        ("dynamo_triton_worker", "a worker of NVIDIA Dynamo with Triton"),
        ("dynamo_vllm_worker", "a worker of NVIDIA Dynamo with vLLM"),
        ("nim_1", "NVIDIA NIM"),
        ("nim_2", "vLLM"),
        ("prometheus", "Prometheus 2.55.1"),
        ("sglang", "SGLang"),
        ("tgi", "Text Generation Inference"),
        ("triton", "Triton"),
        ("trtllm_serve", "trtllm-serve"),
        ("trtllm_serve_1_0", "trtllm-serve"),
        ("vllm", "vLLM"),
    ],
)
def test_a_page_is_named_for_what_it_is(name: str, kinds: str) -> None:
    assert named(ExpositionReader().read(PAGES[name]).layout) == kinds


@pytest.mark.parametrize("kind", [kind for kind in server_kinds() if kind.is_read], ids=lambda kind: kind.name)
def test_what_a_kind_states_is_known(kind: ServerKind) -> None:
    """A meaning that is misspelt would be read of no page, or stop the reading of one."""
    typed = {meaning for _, values in kind.typed_gauges.values() for meaning in values.values()}
    limits = {meaning for labels in kind.limits.values() for meaning in labels.values()}

    assert not {*kind.gauges.values(), *kind.behind.values(), *kind.constants, *typed, *limits} - MEANINGS
    assert not set(kind.requests.values()) - set(Counter)
    assert kind.model_label in (names.SERVE_MODEL, names.MODEL)
    assert kind.has_api or "success" in kind.requests.values(), (
        f"no series counts requests of {kind.name}: state one in `requests`, as no model of it is found without"
    )


@pytest.mark.parametrize("name", UNREAD)
def test_a_saved_page_that_is_not_read_is_named(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved = tmp_path / "page.txt"
    saved.write_bytes(PAGES[name])

    assert main(["explain", str(saved)]) == 3
    shown = capsys.readouterr()
    assert UNREAD[name] in shown.err
    assert "healthy" not in shown.out


@pytest.mark.parametrize("name", UNREAD)
def test_an_address_that_is_not_read_is_named(name: str) -> None:
    site = FakeServer({"GET /metrics": page(PAGES[name], "text/plain")})
    with site.running() as server, pytest.raises(CollectError) as caught:
        discover(f"127.0.0.1:{server.port}", OPTIONS)

    assert UNREAD[name] in str(caught.value)
    assert "no Triton" not in str(caught.value)


@pytest.mark.parametrize("name", ["vllm", "sglang", "nim_1", "nim_2", "dynamo_vllm_worker"])
def test_a_page_of_another_engine_is_found_at_its_address(name: str) -> None:
    with FakeServer({"GET /metrics": page(PAGES[name], "text/plain")}).running() as server:
        found = discover(f"127.0.0.1:{server.port}", OPTIONS)

    assert found.urls == (f"http://127.0.0.1:{server.port}/metrics",)
    assert found.blind_spots == ()


def test_an_unknown_program_is_named_by_its_families(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved = tmp_path / "page.txt"
    saved.write_text("# TYPE go_goroutines gauge\ngo_goroutines 8\n")

    assert main(["explain", str(saved)]) == 3
    assert "an unknown program (go_goroutines)" in capsys.readouterr().err


def grown(body: bytes, reads: int, server: str = "llm", growth: float = 0.1) -> list[Scrape]:
    """Return reads a second apart in which every counter of a page grows by a share of its value a second."""
    kept = ExpositionReader().read(body)
    families = kept.layout.by_name.keys() - {names.PENDING_REQUESTS}
    counters = {name for name in families if name.endswith(("_total", "_count", "_sum", "_bucket", "_us"))}
    counters |= families & {names.REQUEST_SUCCESS}
    found = []
    for second in range(reads):
        lines = []
        for line in body.decode().splitlines():
            name, value = line.split("{")[0], line.rsplit(" ", 1)[-1]
            head = line.rsplit(" ", 1)[0]
            lines.append(f"{head} {float(value) * (1 + second * growth)}" if name in counters else line)
        at = 1e9 + second
        found.append(
            Scrape(server=server, kind=BodyKind.METRICS, at=at, mono=at, body="\n".join([*lines, ""]).encode())
        )
    return found


def explained(*bodies: bytes, growth: float = 0.1) -> Explanation:
    window = window_of(scrape for i, body in enumerate(bodies) for scrape in grown(body, 30, f"llm{i}", growth))
    return explain(WindowEvidence(window), WindowFacts(start=window.start, end=window.end, sources=("llm",)))


@pytest.mark.parametrize(("name", "path"), [("nim_1", "/v1/metrics"), ("trtllm_serve", "/prometheus/metrics")])
def test_a_page_elsewhere_is_found_by_its_port(name: str, path: str) -> None:
    with FakeServer({f"GET {path}": page(PAGES[name], "text/plain")}).running() as server:
        found = discover(f"127.0.0.1:{server.port}", OPTIONS)

    assert found.urls == (f"http://127.0.0.1:{server.port}{path}",)


@pytest.mark.parametrize("name", ["vllm", "sglang", "nim_1", "nim_2", "dynamo_vllm_worker"])
def test_waiting_requests_are_never_healthy(name: str) -> None:
    found = explained(PAGES[name])

    assert found.verdict not in ("healthy", "idle")
    assert "requests wait inside" in f"{found.findings} {found.symptoms}"


def test_slots_of_vllm_are_the_cause_where_its_page_has_them() -> None:
    found = explained(PAGES["nim_2"])

    assert [one.check for one in found.actionable] == ["engine-batch-limit"]
    assert "--max-num-seqs 32 (in its YAML options: max-num-seqs: 32)" in str(found.actionable[0].suggestion)


def test_a_full_cache_of_vllm_is_the_cause_where_its_slots_are_known() -> None:
    body = PAGES["nim_2"].replace(b'num_request_max{model_name="q/w"} 8.0', b'num_request_max{model_name="q/w"} 256.0')
    found = explained(
        body.replace(b'perc{engine="0",model_name="q/w"} 0.25', b'perc{engine="0",model_name="q/w"} 0.99')
    )

    assert [one.check for one in found.actionable] == ["kv-cache-exhausted"]
    assert "--gpu-memory-utilization" in str(found.actionable[0].suggestion)


def test_engines_behind_one_name_are_not_taken_for_one() -> None:
    body = PAGES["nim_2"]
    both = body + b'vllm:num_requests_running{engine="1",model_name="q/w"} 1.0\n'
    both += b'vllm:num_requests_waiting{engine="1",model_name="q/w"} 0.0\n'

    assert explained(both).actionable == ()


def test_what_cannot_be_switched_on_is_not_advised() -> None:
    found = explained(PAGES["vllm"])
    advice = " ".join([found.next_measurement, *(spot.fix for spot in found.blind_spots)])

    assert "v2/models" not in advice
    assert "Triton" not in advice
    assert "HTTP or gRPC port" not in advice


def test_errors_of_trtllm_serve_are_failures_and_bad_requests_are_not() -> None:
    window = window_of(grown(PAGES["trtllm_serve"], 5))
    table = window.servers["llm"].tables[METRICS]["meta/llama", ""]

    assert sum(step.values[Counter.FAILURE] for step in table.steps) == pytest.approx(8)


def test_failures_of_nim_are_counted() -> None:
    window = window_of(grown(PAGES["nim_1"], 5))
    (table,) = window.servers["llm"].tables[METRICS].values()

    assert sum(step.values[Counter.FAILURE] for step in table.steps) == pytest.approx(1.2)


# Pages of Dynamo 1.6.1 with its mocker engine, without buckets and the families of its runtime and its transport.
FRONTEND, WORKER = "dynamo_frontend_{}", "dynamo_mocker_{}"
# They count some thousand requests, at a few a second.
SLOWLY = 1 / 400


def test_slots_are_the_cause_at_dynamo_s_frontend_alone() -> None:
    (finding,) = explained(PAGES[FRONTEND.format("slots")], growth=SLOWLY).actionable

    assert finding.check == "engine-batch-limit"
    assert "restart the workers of NVIDIA Dynamo for tiny with --max-num-seqs 16" in str(finding.suggestion)
    assert "nothing shows whether its KV cache has room" in finding.summary


@pytest.mark.parametrize(("state", "check"), [("slots", "engine-batch-limit"), ("kv", "kv-cache-exhausted")])
def test_the_limits_of_a_worker_are_those_that_the_frontend_before_it_tells(state: str, check: str) -> None:
    found = explained(PAGES[FRONTEND.format(state)], PAGES[WORKER.format(state)], growth=SLOWLY)

    assert [(one.check, one.subject.server) for one in found.actionable] == [(check, "llm1")]
    assert "restart the worker of NVIDIA Dynamo for tiny" in str(found.actionable[0].suggestion)


@pytest.mark.parametrize("pages", [[FRONTEND], [WORKER], [FRONTEND, WORKER]])
def test_an_engine_with_free_slots_is_healthy(pages: list[str]) -> None:
    assert explained(*(PAGES[name.format("idle")] for name in pages), growth=SLOWLY).verdict == "healthy"


@pytest.mark.parametrize("state", ["slots", "kv"])
def test_requests_that_wait_at_a_worker_alone_have_no_cause(state: str) -> None:
    found = explained(PAGES[WORKER.format(state)], growth=SLOWLY)

    assert found.actionable == ()
    assert found.verdict == "no-clear-cause"


def test_slots_of_several_workers_are_not_taken_for_one_s() -> None:
    body = PAGES[FRONTEND.format("slots")].decode()
    last = next(line for line in body.splitlines() if "worker_last_time_to_first_token_seconds{" in line)
    other = last.replace('worker_id="', 'worker_id="9')

    assert explained(body.replace(last, f"{last}\n{other}").encode(), growth=SLOWLY).actionable == ()


def test_failures_of_dynamo_s_frontend_are_counted_and_mistakes_of_callers_are_not() -> None:
    line = 'dynamo_frontend_requests_total{{endpoint="chat_completions",error_type="{}",model="tiny"}} {}\n'
    body = PAGES[FRONTEND.format("idle")] + (line.format("internal", 20) + line.format("validation", 50)).encode()
    window = window_of(grown(body, 5))
    (table,) = window.servers["llm"].tables[METRICS].values()

    assert sum(step.values[Counter.FAILURE] for step in table.steps) == pytest.approx(8)


def test_a_frontend_that_counts_failures_is_kept_beside_its_workers() -> None:
    line = b'dynamo_frontend_requests_total{endpoint="completions",error_type="internal",model="tiny"} 20\n'
    pages = (PAGES[FRONTEND.format("idle")] + line, PAGES[WORKER.format("idle")])
    scrapes = [scrape for i, body in enumerate(pages) for scrape in grown(body, 5, f"llm{i}")]

    assert set(window_of(scrapes).servers) == {"llm0", "llm1"}


def test_a_triton_inside_a_worker_of_dynamo_is_said_to_have_no_ports() -> None:
    with FakeServer({"GET /metrics": page(PAGES["dynamo_triton_worker"], "text/plain")}).running() as server:
        found = discover(f"127.0.0.1:{server.port}", OPTIONS)

    (spot,) = found.blind_spots
    assert "statistics, configuration and instance counts" in spot.what
    assert spot.fix == "give its configurations with --repository DIR: Dynamo starts this Triton without ports"


def test_a_patch_of_a_triton_inside_a_worker_of_dynamo_is_applied_by_a_restart() -> None:
    tensor = b'[ { name: "x" data_type: TYPE_INT32 dims: [ 1 ] } ]'
    config = b'backend: "identity" max_batch_size: 0 input ' + tensor + b" output " + tensor
    file = Scrape(server="llm", kind=BodyKind.REPOSITORY, at=1e9, mono=1e9, body=config, name="identity/config.pbtxt")
    window = window_of([file, *grown(PAGES["dynamo_triton_worker"], 30)])
    found = explain(WindowEvidence(window), WindowFacts(start=window.start, end=window.end, sources=("llm",)))

    (finding,) = found.actionable
    assert finding.advice is not None
    assert finding.advice.steps is not None
    assert "restart the worker of NVIDIA Dynamo" in finding.advice.steps.apply
    assert finding.advice.steps.posts == ()


@pytest.mark.parametrize(("name", "growth"), [("dynamo_frontend_slots", SLOWLY), ("nim_1", 0.1)])
def test_the_support_matrix_names_the_checks_that_a_page_lets_decide(name: str, growth: float) -> None:
    body = PAGES[name]
    found = explained(body, growth=growth)
    (kind,) = kinds_of(ExpositionReader().read(body).layout)
    open_checks = {result.check.id for result, _ in found.unknown}

    assert found.actionable
    assert deciding(kind)
    assert open_checks.isdisjoint(deciding(kind))


# Of a page whose requests grow by ten a second.
PREEMPTIONS = {
    "sglang": b'sglang:num_retracted_requests_total{model_name="q/w"} %d\n',
    "vllm": b'vllm:num_preemptions_total{engine="0",model_name="q/w"} %d\n',
}


@pytest.mark.parametrize("name", PREEMPTIONS)
@pytest.mark.parametrize(("preemptions", "decided"), [(20, True), (0, False)])
def test_a_full_cache_decides_where_running_requests_are_put_back(name: str, preemptions: int, decided: bool) -> None:
    full = PAGES[name].replace(b"} 0.25\n", b"} 0.98\n")
    found = explained(full + PREEMPTIONS[name] % preemptions)
    (kind,) = kinds_of(ExpositionReader().read(full).layout)
    open_checks = {result.check.id for result, _ in found.unknown}

    assert deciding(kind) == ["kv-cache-exhausted"]
    assert [one.check for one in found.actionable] == (deciding(kind) if decided else [])
    assert open_checks.isdisjoint(deciding(kind)) == decided
    assert "engine-batch-limit" in open_checks


@pytest.mark.parametrize(("every", "waits"), [(4, False), (2, True)])
def test_what_waits_at_a_few_reads_is_no_queue(every: int, waits: bool) -> None:
    idle = PAGES[WORKER.format("idle")]
    line = b'vllm:num_requests_waiting{engine="0",model_name="tiny"} '
    assert line + b"0\n" in idle
    scrapes = [
        replace(one, body=one.body.replace(line + b"0\n", line + b"1\n"))
        if number % every == 0 and one.body is not None
        else one
        for number, one in enumerate(grown(idle, 30, growth=SLOWLY))
    ]
    window = window_of(scrapes)
    evidence = WindowEvidence(window)
    (model,) = evidence.subjects(Scope.MODEL)

    assert ((evidence.read(QUEUE_SECONDS, model).value or 0.0) > 0) == waits


def without(body: bytes, family: str) -> bytes:
    """Return a page without one of its families."""
    return b"".join(line for line in body.splitlines(keepends=True) if family.encode() not in line)


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("vllm", "vllm:e2e_request_latency_seconds"),
        ("sglang", "sglang:e2e_request_latency_seconds"),
        ("nim_1", "e2e_request_latency_seconds"),
        ("trtllm_serve", "trtllm_e2e_request_latency_seconds"),
        ("dynamo_frontend_slots", "dynamo_frontend_request_duration_seconds"),
        ("sglang", "sglang:num_queue_reqs"),
        ("nim_1", "num_requests_waiting"),
        ("dynamo_frontend_slots", "dynamo_frontend_queued_requests"),
    ],
)
def test_a_family_without_which_nothing_is_judged_is_named(name: str, family: str) -> None:
    found = explained(without(PAGES[name], family), growth=SLOWLY if "dynamo" in name else 0.1)

    assert found.verdict == "insufficient-data"
    assert found.reason.endswith(f" has no {family}")
    assert found.next_measurement


@pytest.mark.parametrize(
    ("name", "compared"),
    [
        ("vllm", "compare vllm:num_requests_running with --max-num-seqs, and vllm:kv_cache_usage_perc with 1"),
        (
            "sglang",
            "compare sglang:num_running_reqs with --max-running-requests, and sglang:token_usage with 1",
        ),
        (WORKER.format("slots"), "compare vllm:num_requests_running with --max-num-seqs"),
    ],
)
def test_the_next_step_is_in_the_words_of_the_server(name: str, compared: str) -> None:
    found = explained(PAGES[name], growth=SLOWLY if "mocker" in name else 0.1)

    assert found.next_measurement.startswith(compared)


def test_a_nim_without_its_slots_is_not_taken_for_trtllm_serve() -> None:
    assert named(ExpositionReader().read(without(PAGES["nim_1"], names.NIM_SLOTS)).layout) == "NVIDIA NIM"


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("vllm", ":8000/metrics"),
        ("sglang", ":30000/metrics"),
        ("nim_1", ":8000/v1/metrics"),
        ("trtllm_serve", ":8000/prometheus/metrics"),
        ("dynamo_vllm_worker", ":8081/metrics"),
        ("triton", ":8002/metrics"),
    ],
)
def test_a_saved_page_leads_to_the_port_of_its_server(
    name: str, address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = tmp_path / "page.txt"
    saved.write_bytes(PAGES[name])

    main(["explain", str(saved)])
    assert f"curl -s localhost{address} >" in capsys.readouterr().out


VLLM_INFO = b'vllm:cache_config_info{block_size="16",engine="0",%s} 1.0\n'
SGLANG_USAGE = b'sglang:token_usage{model_name="q/w"} 0.25\n'


@pytest.mark.parametrize(
    ("name", "family", "instead"),
    [
        ("vllm", "vllm:cache_config_info", VLLM_INFO % b'num_gpu_blocks="1000",kv_cache_size_tokens="16000"'),
        ("vllm", "vllm:cache_config_info", VLLM_INFO % b'num_gpu_blocks="None",kv_cache_size_tokens="16000"'),
        ("sglang", "sglang:max_total_num_tokens", b""),
        (
            "sglang",
            "_total_num_tokens",
            SGLANG_USAGE + b'sglang:cache_config_info{model_name="q/w",num_pages="250",page_size="64"} 1.0\n',
        ),
        (
            "sglang",
            "_total_num_tokens",
            b'sglang:page_size{model_name="q/w"} 64\nsglang:num_pages{model_name="q/w"} 250\n',
        ),
    ],
)
def test_the_size_of_the_cache_is_read_where_the_configuration_has_it(name: str, family: str, instead: bytes) -> None:
    evidence = WindowEvidence(window_of(grown(without(PAGES[name], family) + instead, 5)))
    (model,) = evidence.subjects(Scope.MODEL)
    blocks, tokens = (evidence.read(one, model).value for one in (ENGINE_KV_BLOCKS, ENGINE_BLOCK_TOKENS))

    assert (None if blocks is None else blocks * (tokens or 0.0)) == (16_000 if instead else None)


def test_the_block_size_of_trtllm_serve_is_read_where_its_configuration_has_it() -> None:
    more = b'trtllm_kv_cache_max_blocks{model_name="meta/llama"} 500\n'
    info = b'trtllm_kv_cache_config_info{model_name="meta/llama",page_size="32",enable_block_reuse="True"} 1.0\n'
    evidence = WindowEvidence(window_of(grown(PAGES["trtllm_serve"] + more + info, 5)))
    (model,) = evidence.subjects(Scope.MODEL)

    assert evidence.read(ENGINE_BLOCK_TOKENS, model).value == 32


@pytest.mark.parametrize(
    ("more", "stated"),
    [
        (b"", "the duration of meta/llama's requests: their queue and the time of their executions were not read"),
        (
            b"# TYPE request_queue_time_seconds histogram\n"
            b'request_queue_time_seconds_bucket{engine_type="pytorch",le="+Inf",model_name="meta/llama"} 100\n'
            b'request_queue_time_seconds_count{engine_type="pytorch",model_name="meta/llama"} 100\n'
            b'request_queue_time_seconds_sum{engine_type="pytorch",model_name="meta/llama"} 150\n',
            "the duration of meta/llama's requests less the queue above: the time of their executions was not read",
        ),
    ],
)
def test_time_whose_parts_no_page_states_is_not_put_down_to_called_models(
    more: bytes, stated: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "page.txt").write_bytes(PAGES["trtllm_serve_1_0"] + more)
    main(["explain", str(tmp_path / "page.txt")])

    assert stated in " ".join(capsys.readouterr().out.split())
