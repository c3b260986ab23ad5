"""`diag explain` of files that people saved: pages, answers, a log, a load test."""

from __future__ import annotations

import gzip
import io
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from diagnostics.cli.main import main
from diagnostics.wire.records import BodyKind
from tests.builders import Stage, SyntheticTriton, model_config
from tests.wire.test_saved_bodies import TABLE

SLOW = Stage("safety", rate=40, execution=0.024, queue=0.2, config=model_config("safety"))
FAST = Stage("tagger", rate=40, execution=0.001, config=model_config("tagger"))
FAILING = Stage("tagger", rate=40, execution=0.001, failing={"BACKEND": 8.0}, config=model_config("tagger"))
LOG = b"""I1128 03:10:00.123456 1 model_lifecycle.cc:472] "loading: safety:2"
E1128 03:10:02.123456 1 model_lifecycle.cc:642] "failed to load 'safety' version 2: Internal: no engine"
"""


@dataclass(slots=True)
class Folder:
    """A folder of saved files; all of them are written at once unless told otherwise."""

    path: Path
    reported: pytest.CaptureFixture[str]
    names: list[str] = field(default_factory=list)

    def put(self, name: str, body: bytes, written: float = 1_700_000_000.0) -> str:
        """Save a body under a name, written at so many Unix seconds."""
        file = self.path / name
        file.write_bytes(body)
        os.utime(file, (written, written))
        return str(file)

    def pages(self, *stages: Stage, kind: BodyKind = BodyKind.METRICS, seconds: float = 30.0) -> list[bytes]:
        """Return the bodies of two reads so far apart."""
        triton = SyntheticTriton(models=stages, interval=seconds, extra_metrics=lambda _: ["nv_cpu_utilization 0.2"])
        return [scrape.body or b"" for scrape in triton.scrapes(2) if scrape.kind is kind]

    def configs(self, *stages: Stage) -> list[str]:
        """Save the configurations."""
        return [self.put(f"{stage.name}.json", json.dumps(stage.config).encode()) for stage in stages]

    def explain(self, names: Sequence[str], *options: str) -> dict[str, Any]:
        """Return the JSON answer."""
        assert main(["explain", *names, "--output", "json", *options]) == 0
        answer: dict[str, Any] = json.loads(self.reported.readouterr().out)
        return answer


@pytest.fixture
def folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Folder:
    return Folder(path=tmp_path, reported=capsys)


def causes(answer: dict[str, Any]) -> list[str]:
    return [found["check"] for found in answer["findings"] if found["severity"] != "info"]


@pytest.mark.parametrize("kind", [BodyKind.METRICS, BodyKind.STATISTICS])
def test_one_reading_holds_averages_and_names_no_cause_that_a_rate_decides(folder: Folder, kind: BodyKind) -> None:
    _, page = folder.pages(SLOW, FAST, kind=kind)
    answer = folder.explain([folder.put("saved.txt", page), *folder.configs(SLOW, FAST)])

    assert answer["verdict"] == "no-clear-cause"
    assert "wait 200 ms for safety" in answer["reason"]
    assert answer["window"]["basis"] == "averages since the server started"
    assert any("another reading" in spot["fix"] for spot in answer["blind_spots"])


def test_the_command_for_another_reading_is_a_line_that_can_be_pasted(folder: Folder) -> None:
    _, page = folder.pages(SLOW, FAST)
    assert main(["explain", folder.put("saved.txt", page)]) == 0

    lines = [line.strip() for line in folder.reported.readouterr().out.splitlines()]
    assert "curl -s localhost:8002/metrics > metrics-$(date +%s).txt" in lines


@pytest.mark.parametrize(
    ("first", "second", "servers"),
    [
        ("nv_cpu_memory_total_bytes 1000", "nv_cpu_memory_total_bytes 2000", 2),
        ("nv_cpu_memory_total_bytes 1000", "nv_cpu_memory_total_bytes 1000", 1),
        ('nv_gpu_power_usage{gpu_uuid="GPU-a"} 1', 'nv_gpu_power_usage{gpu_uuid="GPU-b"} 1', 2),
        ('nv_gpu_power_usage{gpu_uuid="GPU-a"} 1', 'nv_gpu_power_usage{gpu_uuid="GPU-a"} 2', 1),
        ('nv_gpu_power_usage{gpu_uuid="GPU-a"} 1', "", 1),
    ],
)
def test_pages_of_two_machines_are_two_servers(folder: Folder, first: str, second: str, servers: int) -> None:
    pages = zip(folder.pages(FAST), (first, second), ("a.txt", "b.txt"), strict=True)
    answer = folder.explain([folder.put(name, page + f"\n{line}\n".encode()) for page, line, name in pages])

    assert len({one["server"] for one in answer["anatomy"]}) == servers


def test_one_reading_of_a_healthy_server_is_not_called_healthy(folder: Folder) -> None:
    _, page = folder.pages(FAST)
    answer = folder.explain([folder.put("metrics.txt", page), *folder.configs(FAST)])

    assert answer["verdict"] == "insufficient-data"
    assert "averages since the server started" in answer["reason"]


def test_failures_since_the_start_are_named_with_little_confidence(folder: Folder) -> None:
    _, page = folder.pages(FAILING)
    answer = folder.explain([folder.put("metrics.txt", page), *folder.configs(FAILING)])

    assert causes(answer) == ["request-failures"]
    assert answer["findings"][0]["confidence"] <= 0.5


@pytest.mark.parametrize(
    "names",
    [
        ("metrics-1795814441.txt", "metrics-1795814471.txt"),
        ("metrics-1795814441538.prom", "metrics-1795814471538.prom"),
        ("a-2026-11-27T21:20:41Z.txt", "b-2026-11-27T21:21:11Z.txt"),
        ("20261127-212041.txt", "20261127-212111.txt"),
    ],
)
@pytest.mark.parametrize("turned", [False, True])
def test_times_in_names_make_two_pages_a_window(folder: Folder, names: tuple[str, str], turned: bool) -> None:
    saved = [folder.put(name, page) for name, page in zip(names, folder.pages(SLOW, FAST), strict=True)]
    answer = folder.explain([*(saved[::-1] if turned else saved), *folder.configs(SLOW, FAST)])

    assert answer["window"]["seconds"] == pytest.approx(30)
    assert causes(answer) == ["single-instance-serialization"]


def test_times_of_files_make_two_pages_a_window(folder: Folder) -> None:
    pages = folder.pages(SLOW, FAST)
    saved = [folder.put(f"metrics-{i}.txt", page, written=1_700_000_000.0 + 30 * i) for i, page in enumerate(pages)]
    answer = folder.explain([*saved, *folder.configs(SLOW, FAST)])

    assert answer["window"]["basis"] == "times at which the files were written"
    assert causes(answer) == ["single-instance-serialization"]


@pytest.mark.parametrize("apart", [0.0, 0.3])
@pytest.mark.parametrize("turned", [False, True])
def test_files_copied_at_once_tell_no_time_and_counters_tell_their_order(
    folder: Folder, apart: float, turned: bool
) -> None:
    pages = folder.pages(SLOW, FAST)[:: -1 if turned else 1]
    saved = [folder.put(f"metrics-{i}.txt", page, written=1_700_000_000.0 + apart * i) for i, page in enumerate(pages)]
    answer = folder.explain([*saved, *folder.configs(SLOW, FAST)])

    assert answer["window"]["basis"] == "averages between two readings, an unknown time apart"
    assert answer["anatomy"][0]["requests"] == pytest.approx(40 * 30, abs=1)
    assert not causes(answer)
    assert "wait 200 ms for safety" in answer["reason"]


def test_last_inferences_tell_the_time_between_two_statistics(folder: Folder) -> None:
    bodies = [json.loads(body) for body in folder.pages(SLOW, FAST, kind=BodyKind.STATISTICS)]
    for number, body in enumerate(bodies):
        for model in body["model_stats"]:
            model["last_inference"] = 1_795_814_441_000 + 30_000 * number
    # Files that were touched an hour apart later on.
    saved = [folder.put(f"s{i}.json", json.dumps(b).encode(), 1_700_000_000.0 + 3600 * i) for i, b in enumerate(bodies)]
    saved += [folder.put(f"m{i}.txt", page) for i, page in enumerate(folder.pages(SLOW, FAST))]
    answer = folder.explain([*saved, *folder.configs(SLOW, FAST)])

    assert answer["window"]["seconds"] == pytest.approx(30)
    assert answer["window"]["basis"] == "times of the last inferences"
    assert causes(answer) == ["single-instance-serialization"]


def test_pages_of_two_servers_are_two_servers(folder: Folder) -> None:
    one, other = folder.pages(SLOW, FAST)[1], folder.pages(Stage("other", rate=9, execution=0.01))[1]
    answer = folder.explain([folder.put("a.txt", one), folder.put("b.txt", other)])

    assert answer["window"]["basis"] == "averages since the server started"
    assert "requests wait 200 ms for safety" in answer["reason"]


@pytest.mark.parametrize("names", [("m1.txt", "m2.txt", "s.json"), ("m2.txt", "s.json", "m1.txt")], ids=["", "turned"])
def test_two_pages_and_one_answer_of_statistics_are_one_server(folder: Folder, names: tuple[str, str, str]) -> None:
    first, second = folder.pages(SLOW, FAST)
    folder.put("m1.txt", first)
    folder.put("m2.txt", second, 1_700_000_030.0)
    folder.put("s.json", folder.pages(SLOW, FAST, kind=BodyKind.STATISTICS)[1], 1_700_000_030.0)
    log = folder.put("server.log", LOG, 1_700_000_030.0)
    answer = folder.explain([*(str(folder.path / name) for name in names), log, *folder.configs(SLOW, FAST)])

    assert causes(answer) == ["single-instance-serialization"]
    assert answer["window"]["seconds"] == pytest.approx(30)


def test_the_same_reading_twice_is_one_and_says_so(folder: Folder) -> None:
    page = folder.pages(SLOW)[1]
    answer = folder.explain([folder.put("m1.txt", page), folder.put("m2.txt", page)])

    assert answer["window"]["basis"] == "averages since the server started"
    assert "it holds the same reading as m1.txt" in [spot["why"] for spot in answer["blind_spots"]]


def test_a_server_at_rest_is_read_twice(folder: Folder) -> None:
    page = folder.pages(SLOW)[1]
    answer = folder.explain([folder.put("m1.txt", page), folder.put("m2.txt", page, 1_700_000_030.0)])

    assert answer["verdict"] == "idle"
    assert "it holds the same reading as m1.txt" in [spot["why"] for spot in answer["blind_spots"]]


@pytest.mark.parametrize("between", [b"", b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n"], ids=["", "headers"])
def test_pages_that_were_appended_to_one_file_are_several(folder: Folder, between: bytes) -> None:
    pages = [b"# HELP nv_inference_request_success n\n" + page for page in folder.pages(SLOW)]
    apart = folder.explain([folder.put("m1.txt", pages[0]), folder.put("m2.txt", pages[1])])
    together = folder.explain([folder.put("m.txt", b"".join(between + page for page in pages))])

    assert together["window"]["basis"] == apart["window"]["basis"]
    assert together["reason"] == apart["reason"]
    assert together["findings"] == apart["findings"]


@pytest.mark.parametrize("name", ["page.txt.gz", "page"])
def test_what_gzip_packed_is_unpacked(folder: Folder, name: str) -> None:
    page = folder.pages(SLOW)[1]

    packed = folder.explain([folder.put(name, gzip.compress(page))])
    assert packed["reason"] == folder.explain([folder.put("plain.txt", page)])["reason"]


def test_packed_files_that_are_damaged_are_refused_in_one_line(folder: Folder) -> None:
    packed = gzip.compress(folder.pages(SLOW)[1])
    broken = folder.put("page", packed[:-60] + b"\xff" * 60)

    assert main(["explain", broken]) == 3
    assert "is packed with gzip and damaged" in folder.reported.readouterr().err


def test_standard_input_is_a_file(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    _, page = folder.pages(SLOW, FAST)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(page)))

    assert folder.explain(["-"])["window"]["sources"] == ["standard input"]


def test_a_load_test_is_a_window_with_the_only_models_name(folder: Folder) -> None:
    saved = [folder.put("out.txt", TABLE), *folder.configs(FAST)]
    answer = folder.explain(saved)

    assert answer["window"]["basis"] == "a load test"
    assert "wait 9 ms for tagger" in answer["reason"]


def test_a_log_alone_says_which_load_failed(folder: Folder) -> None:
    answer = folder.explain([folder.put("server.log", LOG)])

    assert answer["verdict"] != "healthy"
    assert "no engine" in json.dumps(answer)


@pytest.mark.parametrize(
    ("body", "stated"),
    [(b"hello\n", "is not recognised"), (b"", "is empty"), (b'{"error": "x"}', "an error that a server")],
)
def test_a_file_that_is_nothing_ends_with_one_line_and_code_3(folder: Folder, body: bytes, stated: str) -> None:
    assert main(["explain", folder.put("x.txt", body)]) == 3
    assert stated in folder.reported.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["fixtures/captures/cpu-handed-healthy.tar.xz"],
        ["--at", "03:12"],
        ["--since", "5m"],
    ],
)
def test_what_does_not_go_with_saved_files_is_refused(folder: Folder, arguments: list[str]) -> None:
    page = folder.put("metrics.txt", folder.pages(FAST)[1])

    assert main(["explain", page, *arguments]) == 2
    assert folder.reported.readouterr().err.count("\n") == 1


def test_a_change_is_predicted_where_the_load_is_known_only(folder: Folder) -> None:
    pages = folder.pages(SLOW, FAST, kind=BodyKind.STATISTICS)
    timed = [folder.put(f"stats-{1_795_814_441 + 30 * i}.json", page) for i, page in enumerate(pages)]
    change = ["--set", "safety.instance_group.count=2"]

    assert main(["whatif", timed[0], *folder.configs(SLOW, FAST), *change]) == 3
    assert "the load is not known" in folder.reported.readouterr().err
    assert main(["whatif", *timed, *folder.configs(SLOW, FAST), *change]) == 0


def test_a_saved_file_that_is_missing_is_no_host(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "saved/nothere.json"]) != 0
    assert "no such file or folder" in capsys.readouterr().err
