"""Servers that are found: grouped, watched, shown with where they were found, and let go of."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from diagnostics.diagnosis.incident import Ending
from diagnostics.errors import UsageError
from diagnostics.service import discovery as discovery_module
from diagnostics.service.discovery import Discovery, sources_of
from diagnostics.service.found_servers import (
    LONGEST_NAME,
    FoundServer,
    Served,
    found_server,
    group_named,
    group_of,
    merged,
    served_by,
    with_found,
)
from diagnostics.service.plan import deployments, jobs
from diagnostics.service.service import Service
from diagnostics.settings.load import load
from diagnostics.settings.tree import FileDiscoverySettings, ServerSettings, Settings
from diagnostics.slo.reading import configured
from diagnostics.store.history import History
from exporters.sources.target_list import parse_targets
from tests.collect.fake_triton import FakeServer, fake_triton, page, status
from tests.service.parts import count, until
from tests.service.test_service_restarts import ONE, VerdictListener, left_open
from tests.store.lived import opened

FILE = FileDiscoverySettings(files=("x.json",))
Models = Mapping[str, set[str]]


def found(*places: str, labels: Mapping[str, str] | None = None) -> list[FoundServer]:
    listed = parse_targets([{"targets": list(places), "labels": dict(labels or {})}], "x.json", "http")
    return [found_server(one, "file x.json", FILE) for one in listed.targets]


def planned(settings: Settings) -> dict[str, tuple[str, ...]]:
    return {name: one.urls for name, one in deployments(settings).items()}


def test_found_servers_are_planned_beside_those_that_are_written_down() -> None:
    written = Settings.model_validate(
        {
            "server": [{"url": "http://a:8000", "interval": "5s"}],
            "deployment": [{"name": "chat", "servers": ["http://a:8000"]}],
        }
    )
    groups = {"b:8000": "chat", "c:8000": "rank", "d:8000": "rank"}
    settings = with_found(written, found("a:8000", "b:8000", "c:8000", "d:8000", "e:8000"), groups)
    assert planned(settings) == {
        "chat": ("http://a:8000",),
        "chat-found": ("http://b:8000",),
        "rank": ("http://c:8000", "http://d:8000"),
        "e:8000": ("http://e:8000",),
    }
    assert settings.server[0].interval == 5.0, "what is written down stays as it is"


def test_each_server_is_taken_once_and_of_too_many_always_the_same() -> None:
    twice = [*found("b:1", "a:1"), *found("a:1", "c:1", labels={"x": "y"})]
    kept, left_out = merged(twice, 2)
    assert ([one.place for one in kept], left_out) == (["a:1", "b:1"], 1)
    assert kept[0].target.labels == {}, "the first source counts"


def test_a_deployment_is_named_by_what_it_serves() -> None:
    assert group_of({"rank", "chat"}) == "chat+rank"
    long = group_of([f"model-{number}" for number in range(9)])
    assert long.startswith("model-0+model-1+model-2-")
    assert long != group_of([f"model-{number}" for number in range(8)])
    assert group_of({"a/b"}) != group_of({"a_b"}) == "a_b"
    for name in (group_of({"x" * 300, "y/ z"}), group_named("a b/c?#%\x1b" + "x" * 300)):
        assert len(name) <= LONGEST_NAME
        assert planned(with_found(Settings(), found("a:1"), {"a:1": name})) == {name: ("http://a:1",)}


def test_a_look_at_a_server_gives_its_ensembles() -> None:
    collect = Settings.model_validate({"collect": {"timeout": "2s"}}).collect
    with fake_triton() as fake:
        served = served_by(ServerSettings(url=f"http://127.0.0.1:{fake.port}"), collect)
    assert served == Served(f"127.0.0.1:{fake.port + 2}", {"chat"})
    assert served_by(ServerSettings(url=f"http://127.0.0.1:{fake.port}"), collect) == Served()


def test_credentials_go_to_whom_the_settings_name(tmp_path: Path) -> None:
    for name in ("servers", "source"):
        (tmp_path / name).write_text(f"tok-of-{name}\n")
    settings = Settings.model_validate(
        {
            "discovery": {
                "http": [
                    {
                        "url": "http://sd/list",
                        "bearer_token_file": tmp_path / "source",
                        "server_bearer_token_file": tmp_path / "servers",
                    },
                    {"url": "http://sd/others", "bearer_token_file": tmp_path / "source"},
                ]
            }
        }
    )
    (source, about), (_, bare) = sources_of(settings)
    assert source._options.bearer_token == "tok-of-source"  # type: ignore[attr-defined]
    (target,) = parse_targets([{"targets": ["a:8000"]}], "x", "http").targets
    for one, token in ((about, "tok-of-servers"), (bare, None)):
        merged_settings = with_found(settings, [found_server(target, source.name, one)], {})
        (job,) = jobs(merged_settings, deployments(merged_settings))
        assert job.reader.options.bearer_token == token  # type: ignore[attr-defined]


@pytest.mark.parametrize("key", ["bearer_token_file", "ca_file", "server_bearer_token_file", "server_cert_file"])
def test_a_file_that_is_missing_is_reported_at_once(tmp_path: Path, key: str) -> None:
    settings = Settings.model_validate({"discovery": {"http": [{"url": "http://sd", key: tmp_path / "gone"}]}})
    with pytest.raises(UsageError, match="gone"):
        sources_of(settings)


def test_each_kind_of_source_is_made_of_its_settings(tmp_path: Path) -> None:
    pytest.importorskip("dns", reason="dnspython is not installed")
    (tmp_path / "token").write_text("tok-1234567\n")
    written = {
        "file": [{"files": ["x.json"]}],
        "dns": [{"names": ["a.example"], "type": "A", "nameserver": "127.0.0.1:53"}],
        "prometheus": [{"url": "http://p:9090", "jobs": ["triton"], "bearer_token_file": tmp_path / "token"}],
    }
    sources = [source for source, _ in sources_of(Settings.model_validate({"discovery": written}))]
    assert [one.name for one in sources] == ["file x.json", "dns A a.example", "prometheus http://p:9090 triton"]
    assert sources[2]._options.bearer_token == "tok-1234567"  # type: ignore[attr-defined]
    written["dns"][0]["nameserver"] = "here"
    with pytest.raises(UsageError, match=r"discovery\.dns\.nameserver"):
        sources_of(Settings.model_validate({"discovery": written}))


def test_pods_are_a_source(tmp_path: Path) -> None:
    pytest.importorskip("kubernetes", reason="the client of Kubernetes is not installed")
    written = {"namespace": "ml", "service": "triton", "port": "http", "kubeconfig": tmp_path / "gone"}
    with pytest.raises(UsageError, match=r"discovery\.kubernetes: no cluster can be reached"):
        sources_of(Settings.model_validate({"discovery": {"kubernetes": [written]}}))


def test_servers_that_are_found_share_the_room_for_spans(tmp_path: Path) -> None:
    finding = Finding(tmp_path)
    finding.models = {f"127.0.0.1:{number}": {f"m{number}"} for number in range(1, 5)}
    finding.names("127.0.0.1:1")
    with finding.running():
        until(lambda: finding.watched == {"m1": 1})
        spans = finding.service.deployments["m1"]._window._spans
        assert spans._max == finding.settings.collect.max_spans
        finding.names(*finding.models)
        until(lambda: len(finding.watched) == 4)
        assert spans._max == finding.settings.collect.max_spans // 4


def test_an_objective_may_name_a_deployment_that_is_found_later(tmp_path: Path) -> None:
    file = tmp_path / "diag.toml"
    text = """
        server = [{url = "http://a"}]
        deployment = [{name = "written", servers = ["http://a"]}]
        slo = [{name = "fast", objective = 0.99, model = "m", availability = true, deployment = "found"}]
        """
    file.write_text(text)
    with pytest.raises(UsageError, match="there is no deployment 'found'"):
        configured(load(file, {}, {}))
    file.write_text(f"{text}\n[[discovery.file]]\nfiles = ['x.json']\n")
    assert [one.name for one in configured(load(file, {}, {}))] == ["fast"]


def test_a_source_that_is_written_twice_is_refused() -> None:
    settings = Settings.model_validate({"discovery": {"file": [{"files": ["x.json"]}, {"files": ["x.json"]}]}})
    with pytest.raises(UsageError, match=r"file x.json: is there twice"):
        sources_of(settings)


class Finding:
    """A service whose servers are found in a file; what each serves is made up."""

    def __init__(self, folder: Path, **more: object) -> None:
        self.file, self.models = folder / "targets.json", dict[str, set[str]]()
        self.settings = Settings.model_validate(
            {
                "collect": {"interval": "1s", "timeout": "0.2s"},
                "discovery": {"file": [{"files": [f"{folder}/*.json"], "refresh": "1s"}], **more},
            }
        )
        self.looks: list[str] = []

    def names(self, *places: str, **labels: str) -> None:
        self.file.write_text(json.dumps([{"targets": places, "labels": labels}]))

    def look(self, server: ServerSettings, _: object) -> Served:
        place = server.url.removeprefix("http://")
        self.looks.append(place)
        return Served(place if place in self.models else "", self.models.get(place, ()))

    @contextlib.contextmanager
    def running(self, memory: History | None = None, *consumers: VerdictListener) -> Iterator[Finding]:
        self.service = Service(self.settings, memory=memory, consumers=consumers)
        self.discovery = Discovery(self.settings, self.service, self.service.metrics, self.look)
        self.service.start()
        self.discovery.start()
        try:
            yield self
        finally:
            self.discovery.stop()
            self.service.stop()

    @property
    def watched(self) -> dict[str, int]:
        return {name: len([one for one in self.service._jobs.values() if one.deployment == name]) for name in self.all}

    @property
    def all(self) -> set[str]:
        return set(self.service.deployments)

    def faults(self) -> str:
        return "\n".join(one.reported(0.0) for one in self.service.metrics.faults.lasting())


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans and looks come at once."""
    monkeypatch.setattr(discovery_module, "GATHER", 0.0)
    monkeypatch.setattr(discovery_module, "_PAUSE", 0.01)
    wait: Callable[..., bool] = discovery_module.threading.Event.wait
    monkeypatch.setattr(
        discovery_module.threading.Event, "wait", lambda self, seconds=None: wait(self, seconds and min(seconds, 0.05))
    )


def test_servers_come_and_go_with_the_file(tmp_path: Path) -> None:
    finding = Finding(tmp_path)
    finding.models = {"127.0.0.1:1": {"chat"}, "127.0.0.1:2": {"chat"}, "127.0.0.1:3": {"rank"}}
    finding.names("127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3", "127.0.0.1:4", "x y")
    with finding.running():
        until(lambda: finding.watched == {"chat": 2, "rank": 1, "127.0.0.1:4": 1})
        metrics, source = finding.service.metrics, f"file {tmp_path}/*.json"
        assert count(metrics, "diag_discovery_servers", source=source) == 4
        assert count(metrics, "diag_discovery_refused", source=source) == 1
        assert "x y: holds blanks" in finding.faults()
        finding.names("127.0.0.1:1")
        until(lambda: finding.watched == {"chat": 1})
        until(lambda: not finding.faults())
        finding.file.write_text("[")
        until(lambda: "is not JSON" in finding.faults())
        assert finding.watched == {"chat": 1}, "the former list stays"
        until(lambda: count(metrics, "diag_rounds_total", server="http://127.0.0.1:1", outcome="failed"))
        finding.file.unlink()
        until(lambda: finding.watched == {})
        assert not count(metrics, "diag_rounds_total", server="http://127.0.0.1:1", outcome="failed")
    assert finding.looks.count("127.0.0.1:1") == 1


def test_ports_of_one_server_are_one_server(tmp_path: Path) -> None:
    finding = Finding(tmp_path)
    finding.look = lambda server, _: Served("a:8002", {"chat"})  # type: ignore[method-assign]
    finding.names("a:8000", "a:8002")
    with finding.running():
        until(lambda: finding.watched == {"chat": 1})


def test_servers_are_grouped_by_a_label(tmp_path: Path) -> None:
    finding = Finding(tmp_path, group_by="team", max_servers=2)
    finding.names("127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3", team="chat")
    finding.models = {"127.0.0.1:1": {"rank"}}
    with finding.running():
        until(lambda: finding.watched == {"chat": 2})
        until(lambda: "1 servers are left out: discovery.max_servers is 2" in finding.faults())
        finding.discovery.reload(
            Settings.model_validate(
                {
                    **finding.settings.model_dump(),
                    "discovery": {**finding.settings.discovery.model_dump(), "group_by": ""},
                }
            )
        )
        until(lambda: finding.watched == {"rank": 1, "127.0.0.1:2": 1})


def test_what_was_found_is_shown_with_its_source_and_its_labels(tmp_path: Path) -> None:
    with fake_triton() as fake:
        finding = Finding(tmp_path)
        place = f"127.0.0.1:{fake.port}"
        finding.models = {place: {"chat"}}
        finding.names(place, team="chat", api_token="tok-1234567", __meta_x="y")
        with finding.running():
            until(lambda: finding.service.board.read().targets)
            (target,) = finding.service.board.read().targets.values()
            until(lambda: finding.service.board.read().evaluations)
            (judged,) = finding.service.board.read().evaluations.values()
    # What is to be pasted names the address that is read, not port 8000.
    assert set(judged.explanation.window.addresses.values()) == {f"http://{place}"}
    assert (target.found_by, target.up) == (f"file {tmp_path}/*.json", True)
    assert target.labels == {"team": "chat", "api_token": "[REDACTED]"}


def test_a_changed_source_keeps_what_it_named_until_it_answers(tmp_path: Path) -> None:
    listed = json.dumps([{"targets": ["127.0.0.1:1"]}]).encode()
    with FakeServer({"GET /list": page(listed)}).running() as server:
        finding = Finding(tmp_path)
        finding.models = {"127.0.0.1:1": {"chat"}}
        settings = finding.settings.model_dump()
        settings["discovery"] = {"http": [{"url": f"{server.url}/list", "refresh": "1s"}]}
        finding.settings = Settings.model_validate(settings)
        with finding.running():
            until(lambda: finding.watched == {"chat": 1})
            server.routes["GET /list"] = status(500)
            until(lambda: "HTTP 500" in finding.faults())
            settings["discovery"]["http"][0]["server_insecure"] = True
            finding.discovery.reload(Settings.model_validate(settings))
            until(lambda: finding.service.settings.server[0].insecure)
            assert finding.watched == {"chat": 1}
            finding.discovery.reload(Settings.model_validate({**settings, "discovery": {}}))
            until(lambda: finding.watched == {})


def test_incidents_of_an_earlier_run_wait_until_all_sources_have_answered(tmp_path: Path) -> None:
    left_open(tmp_path / "data", ONE, replace(ONE, id="gone", deployment="gone"))
    history, reported = opened(tmp_path / "data"), VerdictListener()
    history.start()
    finding = Finding(tmp_path)
    finding.models = {"127.0.0.1:1": {"chat"}}
    finding.names("127.0.0.1:1")
    try:
        with finding.running(history, reported):
            until(lambda: reported.ended)
            until(lambda: finding.watched == {"chat": 1})
            assert [one.id for one in finding.service.deployments["chat"].book.open] == [ONE.id]
            assert [(one.id, one.ending) for _, one in reported.ended] == [("gone", Ending.UNWATCHED)]
            finding.names()
            until(lambda: len(reported.ended) == 2)
        assert {one.id for _, one in reported.ended} == {"gone", ONE.id}
    finally:
        history.stop()
