"""What sources of discovery name: lists in files and at URLs, and what of them cannot be used."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from diagnostics.errors import CollectError, MalformedBody
from exporters.sources.access import SourceOptions
from exporters.sources.file_targets import FileTargets
from exporters.sources.http_targets import HttpTargets
from exporters.sources.target_list import MOST_NAMED, MOST_TARGETS, TargetList, lines_of_refused, parse_targets
from tests.collect.fake_triton import FakeServer, guarded, page, status

LISTED = [{"targets": ["triton-0:8002", "triton-1:8002"], "labels": {"team": "chat"}}]
YAML = "- targets: [triton-0:8002, 'triton-1:8002']\n  labels: {team: chat, shard: 7}\n"


def urls(found: TargetList) -> list[str]:
    return [one.url for one in found.targets]


@pytest.mark.parametrize(
    ("target", "labels", "url"),
    [
        ("a:8002", {}, "http://a:8002"),
        ("a", {}, "http://a:8000"),
        ("[::1]:8000", {}, "http://[::1]:8000"),
        ("a:8002", {"__scheme__": "https"}, "https://a:8002"),
        ("a:9000", {"__metrics_path__": "/prometheus/metrics"}, "http://a:9000/prometheus/metrics"),
        ("a:8002", {"__metrics_path__": "/metrics"}, "http://a:8002"),
        ("grpc://a:8001", {"__scheme__": "https"}, "grpc://a:8001"),
    ],
)
def test_a_target_is_an_address_as_prometheus_reads_it(target: str, labels: dict[str, str], url: str) -> None:
    found = parse_targets([{"targets": [target], "labels": labels}], "list", "http")
    assert (urls(found), found.refused_count) == ([url], 0)


@pytest.mark.parametrize(
    ("group", "reason"),
    [
        (None, "should be an object"),
        ({"labels": {}}, "has no list of targets"),
        ({"targets": "a:8002"}, "has no list of targets"),
        ({"targets": ["a:8002"], "labels": ["x"]}, "should be an object"),
        ({"targets": ["a:8002"], "labels": {"x": "y" * 2000}}, "longer than 1024 characters"),
        ({"targets": ["a:8002"], "labels": {"x": "\x1b[31m"}}, "holds control characters"),
        ({"targets": ["a:8002"], "labels": {str(n): "" for n in range(65)}}, "more than 64 labels"),
        ({"targets": ["a:8002"], "labels": {"__scheme__": "file"}}, "neither http nor https"),
        ({"targets": ["a:8002"], "labels": {"__metrics_path__": "/m?secret=1"}}, "holds a ? or a #"),
        ({"targets": [8002]}, "is no text"),
        ({"targets": ["a b:1"]}, "holds blanks"),
        ({"targets": ["u:hunter22@a:8002"]}, "names a user"),
        ({"targets": ["a" * 151]}, "longer than 150 characters"),
        ({"targets": ["ftp://a:8002"]}, "ftp:// is not known"),
    ],
)
def test_what_cannot_be_used_is_refused_alone_and_named(group: object, reason: str) -> None:
    found = parse_targets([group, {"targets": ["good:8002"]}], "list", "http")
    assert urls(found) == ["http://good:8002"]
    assert found.refused_count == 1
    ((entry, why),) = found.refused.items()
    assert entry.startswith("list: ")
    assert reason in why
    assert "hunter22" not in entry + why


def test_targets_and_refusals_are_bounded() -> None:
    many = [f"t{number}:8002" for number in range(MOST_TARGETS + 5)]
    kept = parse_targets([{"targets": [*many, *["x y"] * 30]}], "list", "http")
    assert len(kept.targets) == MOST_TARGETS
    assert kept.refused_count == 35
    assert len(kept.refused) <= MOST_NAMED
    assert list(lines_of_refused(kept))[-1].startswith("and ")


def test_files_are_read_as_json_and_yaml_and_again_when_changed(tmp_path: Path) -> None:
    (tmp_path / "one.json").write_text(json.dumps(LISTED))
    source = FileTargets([f"{tmp_path}/*.json", f"{tmp_path}/*.yaml"], scheme="http", refresh=5)
    assert urls(source.find()) == ["http://triton-0:8002", "http://triton-1:8002"]
    (tmp_path / "two.yaml").write_text(YAML.replace("triton", "other"))
    found = source.find()
    assert urls(found)[2:] == ["http://other-0:8002", "http://other-1:8002"]
    assert found.targets[3].labels == {"team": "chat", "shard": "7"}
    assert found.targets[3].found_in == f"{tmp_path}/two.yaml"
    (tmp_path / "one.json").unlink()
    assert urls(source.find()) == ["http://other-0:8002", "http://other-1:8002"]


def test_a_file_that_did_not_change_is_not_read_again(tmp_path: Path) -> None:
    file = tmp_path / "one.json"
    file.write_text(json.dumps(LISTED))
    source = FileTargets([str(file)], scheme="http", refresh=5)
    source.find()
    times = (file.stat().st_atime_ns, file.stat().st_mtime_ns)
    file.write_text(json.dumps(LISTED).replace("triton-1", "triton-9"))
    os.utime(file, ns=times)
    assert urls(source.find())[1] == "http://triton-1:8002"


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("one.json", "[", "is not JSON"),
        ("one.json", "{}", "should be a list"),
        ("one.yaml", "a: &x [1]\nb: *x\n", "anchors and aliases"),
        ("one.yaml", "- [", ""),
        ("one.json", f'["{"x" * 2**20}"]', "larger than 1 MiB"),
        ("one.txt", "[]", "ends with none of .json"),
    ],
)
def test_a_bad_file_is_refused_alone_and_what_it_listed_stays(
    tmp_path: Path, name: str, text: str, reason: str
) -> None:
    (tmp_path / "good.json").write_text(json.dumps([{"targets": ["good:8002"]}]))
    bad = tmp_path / name
    bad.write_text(YAML)
    source = FileTargets([f"{tmp_path}/*"], scheme="http", refresh=5)
    before = urls(source.find())
    bad.write_text(text)
    found = source.find()
    assert urls(found) == before
    assert "http://good:8002" in before
    assert (list(found.refused), found.refused_count) == ([str(bad)], 1)
    assert reason in found.refused[str(bad)]


def test_a_url_lists_targets_and_is_asked_with_its_own_credentials() -> None:
    answer = guarded("Bearer tok-1234567", page(json.dumps(LISTED).encode(), "application/json"))
    with FakeServer({"GET /list?team=chat": answer}).running() as server:
        url = f"{server.url}/list?team=chat"
        source = HttpTargets(url, SourceOptions(bearer_token="tok-1234567"), scheme="https", refresh=60)
        found = source.find()
        assert urls(found) == ["https://triton-0:8002", "https://triton-1:8002"]
        assert source.name == f"http {server.url}/list?[REDACTED]"
        with pytest.raises(CollectError, match="HTTP 401"):
            HttpTargets(url, SourceOptions(), scheme="http", refresh=60).find()


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (page(b"<html>"), "not JSON"),
        (page(b'{"targets": []}'), "should be a list"),
        (page(b'"' + b"x" * 3000 + b'"'), "larger than"),
        (status(500), "HTTP 500"),
        (status(302, Location="http://127.0.0.1:1/"), "HTTP 302"),
    ],
)
def test_a_url_that_gives_no_list_is_reported(answer: object, reason: str) -> None:
    with FakeServer({"GET /list": answer}).running() as server:  # type: ignore[dict-item]
        source = HttpTargets(f"{server.url}/list", SourceOptions(max_body=2000), scheme="http", refresh=60)
        with pytest.raises((CollectError, MalformedBody)) as caught:
            source.find()
    assert reason in str(caught.value)
    assert server.url in str(caught.value)
