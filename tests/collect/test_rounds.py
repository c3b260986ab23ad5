from __future__ import annotations

import json
import threading
import time

from fake_triton import body_of, cut_off, dripping, fake_triton, page, recorded, silent, status

from diagnostics.wire.model_config import parse_model_config
from diagnostics.wire.records import BodyKind
from diagnostics.wire.server import parse_statistics
from exporters.sources.access import SourceOptions
from exporters.sources.repository import RepositoryFiles
from exporters.sources.triton import TritonServer, discover


def found(fake, timeout: float = 1.0) -> TritonServer:
    return discover(f"127.0.0.1:{fake.port}", SourceOptions(timeout=timeout))


def index(**versions: str) -> bytes:
    return json.dumps([{"name": n, "version": v, "state": "READY"} for n, v in versions.items()]).encode()


def configs(scrapes) -> list[str]:
    return [scrape.name for scrape in scrapes if scrape.kind is BodyKind.CONFIG]


def test_a_round_reads_metrics_statistics_and_index_as_they_came():
    with fake_triton() as fake:
        scrapes = found(fake).scrape()
    assert [scrape.kind for scrape in scrapes] == [BodyKind.METRICS, BodyKind.STATISTICS, BodyKind.INDEX]
    for scrape in scrapes:
        assert scrape.body == body_of(scrape.kind)
        assert scrape.server == f"127.0.0.1:{fake.port + 2}"
        assert scrape.error is None
        assert scrape.took >= 0


def test_a_description_holds_the_server_and_every_models_configuration():
    with fake_triton() as fake:
        scrapes = found(fake).describe()
    assert scrapes[0].kind is BodyKind.SERVER
    names = configs(scrapes)
    assert names == sorted(model.name for model in parse_statistics(body_of(BodyKind.STATISTICS)))
    assert all(parse_model_config(scrape.body).name == scrape.name for scrape in scrapes[1:])


def test_each_read_fails_alone():
    with fake_triton() as fake:
        server = found(fake)
        fake.api.routes["GET /v2/models/stats"] = status(500, b'{"error": "no"}')
        metrics, statistics, listed = server.scrape()
    assert metrics.body
    assert listed.body
    assert (statistics.body, statistics.error) == (None, "HTTP 500: no")


def test_a_login_page_is_no_statistics():
    with fake_triton() as fake:
        server = found(fake)
        fake.api.routes["GET /v2/models/stats"] = page(b"<html>sign in</html>", "text/html")
        assert server.scrape()[1].error == "an HTML page, not Triton's JSON"


def test_a_page_that_ends_early_is_a_failed_read():
    with fake_triton() as fake:
        server = found(fake)
        fake.metrics.routes["GET /metrics"] = cut_off
        assert server.scrape()[0].error == "the answer was cut off"


def test_a_server_that_went_away_gives_a_reason_for_every_read():
    with fake_triton() as fake:
        server = found(fake)
    scrapes = server.round()
    assert [scrape.error for scrape in scrapes] == ["connection refused"] * 3


def test_configurations_are_read_once_and_again_when_a_version_appears():
    with fake_triton() as fake:
        server = found(fake)
        assert configs(server.round())
        assert not configs(server.round())
        names = {model.name: "1" for model in parse_statistics(body_of(BodyKind.STATISTICS))}
        fake.api.routes["POST /v2/repository/index"] = page(index(**names | {"safety": "2"}))
        assert configs(server.round())
        assert not configs(server.round())


def test_configurations_are_read_again_after_the_server_was_away():
    with fake_triton() as fake:
        server = found(fake)
        server.round()
    server.round()
    with fake.api.running(), fake.metrics.running():
        assert configs(server.round())


def test_a_model_with_a_strange_name_is_requested_by_its_quoted_name():
    with fake_triton() as fake:
        server = found(fake)
        fake.api.routes["POST /v2/repository/index"] = page(index(**{"a..%b c": "1", "a/../b": "1"}))
        server.scrape()
        server.describe()
        requested = [path for path, _ in fake.api.seen if path.endswith("/config")]
        assert requested == ["GET /v2/models/a..%25b%20c/config"]


def test_without_an_index_models_are_known_from_their_statistics():
    with fake_triton() as fake:
        fake.api.routes["POST /v2/repository/index"] = status(403)
        server = found(fake)
        assert len(configs(server.round())) == len(parse_statistics(body_of(BodyKind.STATISTICS)))


def test_a_model_that_is_not_ready_is_not_requested():
    listed = [{"name": "a", "version": "1", "state": "UNAVAILABLE", "reason": "x"}, {"name": "b"}]
    with fake_triton() as fake:
        server = found(fake)
        fake.api.routes["POST /v2/repository/index"] = page(json.dumps(listed).encode())
        server.scrape()
        assert configs(server.describe()) == []


def test_a_read_that_outlives_its_deadline_is_not_begun_a_second_time():
    release = threading.Event()
    with fake_triton() as fake:
        server = found(fake, timeout=0.2)
        fake.metrics.routes["GET /metrics"] = dripping(release)
        server.scrape()
        before = len(fake.metrics.seen)
        assert server.scrape()[0].body is None
        assert len(fake.metrics.seen) <= before + 1
        release.set()


def test_a_server_that_answers_no_configuration_is_not_requested_all_of_them():
    release = threading.Event()
    names = {f"m{number}": "1" for number in range(40)}
    with fake_triton() as fake:
        server = found(fake, timeout=0.2)
        fake.api.routes["POST /v2/repository/index"] = page(index(**names))
        for name in names:
            fake.api.routes[f"GET /v2/models/{name}/config"] = silent(release)
        server.scrape()
        assert len(configs(server.describe())) == 4
        assert server.needs_describing
        release.set()


def set_count(fake, count: int, model: str = "safety") -> None:
    """Change a model's instances in place: no version, counter or index tells of it."""
    body = json.loads(recorded()[BodyKind.CONFIG, "safety"]) | {"name": model}
    body["instance_group"][0]["count"] = count
    fake.api.routes[f"GET /v2/models/{model}/config"] = page(json.dumps(body).encode())


def test_a_setting_that_is_changed_in_place_is_read_in_the_next_round_and_reported_once():
    with fake_triton() as fake:
        server = found(fake)
        set_count(fake, 1)
        server.round()
        for count in (2, 1):
            set_count(fake, count)
            reported = [scrape for scrape in server.round() if scrape.kind is BodyKind.CONFIG]
            assert [parse_model_config(scrape.body).instance_groups[0].count for scrape in reported] == [count]
            assert not configs(server.round())


def test_of_hundreds_of_models_those_that_executed_are_looked_at_first_and_all_in_time():
    names = {f"m{number:03}": "1" for number in range(100)}
    with fake_triton() as fake:
        server = found(fake)
        fake.api.routes["POST /v2/repository/index"] = page(index(**names))
        for name in names:
            set_count(fake, 1, name)
        count_executions(fake, names, 0)
        server.round()
        server.round()
        for name in names:
            set_count(fake, 2, name)
        count_executions(fake, {"m050": "1", "m099": "1"}, 7)
        fake.api.seen.clear()
        first = configs(server.round())
        assert set(first[:2]) == {"m050", "m099"}
        assert len(first) <= 10
        later = [name for _ in range(15) for name in configs(server.round())]
        assert sorted([*first, *later]) == sorted(names)


def count_executions(fake, models, executions: int) -> None:
    row = {"version": "1", "inference_count": executions, "execution_count": executions}
    body = {"model_stats": [row | {"name": name} for name in models]}
    fake.api.routes["GET /v2/models/stats"] = page(json.dumps(body).encode())


def test_no_further_configuration_is_requested_once_a_read_goes_unanswered():
    release = threading.Event()
    with fake_triton() as fake:
        server = found(fake, timeout=0.2)
        server.round()
        for name in {model.name for model in parse_statistics(body_of(BodyKind.STATISTICS))}:
            fake.api.routes[f"GET /v2/models/{name}/config"] = silent(release)
        fake.api.seen.clear()
        assert not configs(server.round())
        assert sum(path.endswith("/config") for path, _ in fake.api.seen) == 4
        release.set()


def test_a_file_of_the_repository_is_read_again_when_it_was_written(tmp_path):
    (tmp_path / "safety" / "1").mkdir(parents=True)
    file = tmp_path / "safety" / "config.pbtxt"
    file.write_text('name: "safety"')
    files = RepositoryFiles(tmp_path)
    assert [one.name for one in files.changed("t")] == ["safety/config.pbtxt", "safety/1/.keep"]
    assert files.changed("t") == []
    file.write_text('name: "safety" max_batch_size: 8')
    (tmp_path / "safety" / "2").mkdir()
    reported = {one.name: one.body for one in files.changed("t")}
    assert reported == {"safety/config.pbtxt": b'name: "safety" max_batch_size: 8', "safety/2/.keep": b""}


def test_a_server_that_is_slow_with_most_configurations_is_described_for_a_while_and_then_by_and_by():
    """One of each four read at once answers: that server is not away, and would be described for minutes."""
    names = [f"m{number:02}" for number in range(40)]
    release = threading.Event()
    with fake_triton() as fake:
        assert fake.api is not None
        fake.api.routes["POST /v2/repository/index"] = page(
            json.dumps([{"name": name, "version": "1", "state": "READY"} for name in names]).encode()
        )
        for at, name in enumerate(names):
            answer = silent(release) if at % 4 else page(json.dumps({"name": name}).encode())
            fake.api.routes[f"GET /v2/models/{name}/config"] = answer
        server = discover(f"127.0.0.1:{fake.port}", SourceOptions(timeout=0.2))
        begun = time.monotonic()
        scrapes = [one for one in server.describe() if one.kind is BodyKind.CONFIG]
        assert time.monotonic() - begun < 6
        release.set()
    assert [one.name for one in scrapes] == names
    assert scrapes[0].body is not None
    late = [one.error for one in scrapes[-4:]]
    assert all(error is not None and "slow with its configurations" in error for error in late)
    assert not server.needs_describing
