from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from diagnostics.errors import UsageError
from diagnostics.service import jobs as jobs_module
from diagnostics.service.jobs import MachineReader, TritonReader
from diagnostics.service.plan import deployments, jobs, with_machine
from diagnostics.settings.tree import Settings
from diagnostics.wire.records import BodyKind, Scrape

A, B = "http://a:8000", "http://b:8000"


def settings(*servers: dict[str, object], deployment: list[dict[str, object]] | None = None) -> Settings:
    return Settings.model_validate({"server": list(servers), "deployment": deployment or []})


def test_a_server_that_is_in_no_deployment_is_one():
    planned = deployments(settings({"url": A}, {"url": B}))
    assert {name: one.urls for name, one in planned.items()} == {"a:8000": (A,), "b:8000": (B,)}


def test_servers_of_a_deployment_are_judged_together_at_the_shortest_interval():
    written = [{"name": "chat", "servers": [A, B], "objective": "p95 < 200ms"}]
    chosen = settings({"url": A, "interval": "5s"}, {"url": B}, {"url": "http://c:8000"}, deployment=written)
    planned = deployments(chosen)
    assert set(planned) == {"chat", "c:8000"}
    assert planned["chat"].interval == 5.0
    assert planned["chat"].objective is not None
    made = jobs(chosen, planned)
    assert {(job.key, job.deployment, job.interval) for job in made} == {
        (A, "chat", 5.0),
        (B, "chat", 15.0),
        ("http://c:8000", "c:8000", 15.0),
    }


@pytest.mark.parametrize(
    ("written", "stated"),
    [
        ([{"name": "chat", "servers": ["http://x:8000"]}], "no [[server]] with the URL 'http://x:8000'"),
        ([{"name": "one", "servers": [A]}, {"name": "two", "servers": [A]}], "is in one too"),
        ([{"name": "one", "servers": [A]}, {"name": "one", "servers": [B]}], "two deployments have this name"),
        ([{"name": "one", "servers": [A, A]}], f"names {A} twice"),
        ([{"name": "b:8000", "servers": [A]}], "two deployments would be called b:8000"),
    ],
)
def test_deployments_that_contradict_each_other_are_refused(written: list[dict[str, object]], stated: str):
    with pytest.raises(UsageError) as caught:
        deployments(settings({"url": A}, {"url": B}, deployment=written))
    assert stated in str(caught.value)


def test_a_server_that_is_written_twice_is_refused():
    with pytest.raises(UsageError, match=r"a:8000: is the URL of two \[\[server\]\]"):
        deployments(settings({"url": A, "interval": "5s"}, {"url": A, "interval": "30s"}))


def test_secrets_are_read_from_their_files_and_shown_nowhere(tmp_path: Path):
    token = tmp_path / "token"
    token.write_text("tok-1234567\n")
    chosen = settings({"url": A, "bearer_token_file": str(token), "timeout": "2s"})
    (job,) = jobs(chosen, deployments(chosen))
    assert isinstance(job.reader, TritonReader)
    assert job.reader.options.bearer_token == "tok-1234567"
    assert job.reader.options.timeout == 2.0
    assert "tok-1234567" not in repr(job)


@pytest.mark.parametrize("key", ["bearer_token_file", "basic_auth_file", "ca_file", "cert_file"])
def test_a_file_that_is_not_there_is_reported_before_anything_is_read(tmp_path: Path, key: str):
    chosen = settings({"url": A, key: str(tmp_path / "gone")})
    with pytest.raises(UsageError) as caught:
        jobs(chosen, deployments(chosen))
    assert "gone" in str(caught.value)


def test_a_page_of_gpus_is_a_source_of_its_own_that_counts_no_requests():
    chosen = settings({"url": A, "dcgm_url": "http://a:9400/metrics"})
    made = jobs(chosen, deployments(chosen))
    assert [(job.deployment, job.counts) for job in made] == [("a:8000", True), ("a:8000", False)]


def test_one_job_samples_the_machine_that_any_server_may_run_on():
    chosen = settings({"url": A, "interval": "2s"}, {"url": B})
    planned = with_machine({job.key: job for job in jobs(chosen, deployments(chosen))})
    (machine,) = [job for job in planned.values() if isinstance(job.reader, MachineReader)]
    assert (machine.interval, machine.counts) == (2.0, False), "a machine that says nothing is no failed round"
    assert machine.reader.round() == [], "no server was found yet"


class Found:
    """Where a server runs, and what is read of it there."""

    def __init__(self, servers: Sequence[str], *, gpus: bool) -> None:
        assert not gpus, "they are asked once for all deployments"
        self.local = tuple(name for name in servers if name.startswith("here"))
        self.whole = len(self.local) == len(servers)

    def round(self) -> list[Scrape]:
        return [Scrape(server=name, kind=BodyKind.HOST, at=1.0, mono=1.0, body=b"{}") for name in self.local]


class Gpus:
    """A driver that counts."""

    requested = closed = 0

    def sample(self) -> Scrape:
        self.requested += 1
        return Scrape(server="", kind=BodyKind.NVML, at=1.0, mono=1.0, body=b"{}")

    def close(self) -> None:
        self.closed += 1


def test_the_gpus_are_requested_once_for_all_deployments_that_run_wholly_here(monkeypatch: pytest.MonkeyPatch):
    gpus = Gpus()
    monkeypatch.setattr(jobs_module, "Machine", Found)
    monkeypatch.setattr(jobs_module.NvmlSampler, "open", lambda: gpus)
    servers = {"one": ["here-1"], "two": ["here-2", "here-3"], "part": ["here-4", "away"], "away": ["away-2"]}
    readers = {name: [SimpleNamespace(found=one) for one in found] for name, found in servers.items()}
    reader = MachineReader(readers)
    reader.round()
    reported = {name: [one.server for one in scrapes] for name, scrapes in reader.shares.items()}
    assert reported == {"one": ["here-1", ""], "two": ["here-2", "here-3", ""], "part": ["here-4"]}
    readers["one"][0].found = readers["two"][0].found = None
    reader.round()
    assert (set(reader.shares), gpus.requested, gpus.closed) == ({"part"}, 1, 1)
