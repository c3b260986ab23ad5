"""What answers at the address of a running service may be another program, or a hostile one."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping

import pytest

from diagnostics.cli.main import main
from diagnostics.render.plain import legible
from tests.collect.fake_triton import Answer, FakeServer, page, status

HEADERS = {"Diag-Verdict": "degraded", "Diag-Severities": "", "Diag-Window-To": "1"}
TARGETS = json.dumps([{"deployment": "d", "server": "s"}]).encode()
ESCAPES = "\x1b]0;owned\x07\x9b31mred\u202e\u2028"


def headed(body: bytes, headers: Mapping[str, str] = HEADERS) -> Answer:
    return status(200, body, **headers)


@pytest.fixture
def service() -> Iterator[FakeServer]:
    with FakeServer({"GET /api/v1/targets": page(TARGETS, "application/json")}).running() as running:
        yield running


PLACE = "GET /api/v1/deployments/d/explanation?output="


@pytest.mark.parametrize(
    ("output", "body"),
    [
        ("text", ESCAPES.encode()),
        ("markdown", ESCAPES.encode()),
        ("html", ESCAPES.encode()),
        ("json", json.dumps({"a": ESCAPES}, ensure_ascii=False).encode()),
    ],
)
def test_nothing_that_it_answers_moves_a_cursor(
    service: FakeServer, output: str, body: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = {"text": "brief&colour=true", "patch": "json"}.get(output, output)
    service.routes[f"{PLACE}{asked}"] = headed(body)
    assert main(["explain", "--url", service.url, "--deployment", "d", "--output", output]) == 0
    out, _ = capsys.readouterr()
    assert "red" in out
    assert all(line.isprintable() for line in out.split("\n"))


@pytest.mark.parametrize("output", ["json", "patch"])
@pytest.mark.parametrize("body", [b"7", b"[]", b'{"findings":7}', b'{"findings":[{}]}', b'{"a":NaN}', b"[" * 100_000])
def test_an_answer_of_another_program_is_one_line(
    service: FakeServer, output: str, body: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    service.routes[f"{PLACE}json"] = headed(body)
    code = main(["explain", "--url", service.url, "--deployment", "d", "--output", output])
    _, err = capsys.readouterr()
    assert "internal error" not in err
    assert len(err.splitlines()) == (code != 0)


def test_its_colours_and_lines_stay() -> None:
    text = "\x1b[1mcritical\x1b[0m\ta\r\n-b\n"
    assert legible(text) == text
    assert legible(f"{text}{ESCAPES}") == f"{text}\\x1b]0;owned\\x07\\x9b31mred\\u202e\\u2028"


@pytest.mark.parametrize("body", [b'{"now":NaN}', b"[" + b"{}," * 2_000_000 + b"{}]", b"\xff", b"[" * 100_000])
def test_a_state_that_is_none_is_one_line(service: FakeServer, body: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    service.routes["GET /api/v1/state"] = page(body, "application/json")
    begun = time.process_time()
    assert main(["watch", "--once", "--url", service.url, "--output", "json"]) == 3
    assert time.process_time() - begun < 1
    assert "not as diag serve does" in capsys.readouterr().err
