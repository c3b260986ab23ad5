"""What is told of a configuration's text is what protobuf's own parser refuses."""

from __future__ import annotations

from pathlib import Path

import pytest
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from diagnostics.lint.catalogue import catalogue
from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.run import lint

RULES = (
    "broken-text-format",
    "byte-order-mark",
    "choice-given-twice",
    "field-given-twice",
    "scheduler-settings-conflict",
    "unknown-field",
    "value-of-wrong-type",
)
CASES = [case for found in catalogue().values() for case in found.cases]
WRITTEN = {
    text
    for case in CASES
    for name, text in case.files.items()
    if name.endswith("config.pbtxt") and isinstance(text, str) and "${" not in text
}
# Beside what the rules' own cases hold. What the server takes and protobuf's Python parser does not is left out, as
# `0x1` for a flag.
ODD = (
    "instance_group [ { count: 1 }, ]",
    "instance_group [ { count: 1 } { count: 2 } ]",
    "instance_group [ [ { count: 1 } ] ]",
    'name: "a";; max_batch_size: 1',
    "dynamic_batching { max_queue_delay_microseconds: -1 }",
    "instance_group { kind: -1 }",
    "instance_group { kind: 7 }",
    "version_policy { latest { num_versions: 4294967296 } }",
    "sequence_batching { direct { minimum_slot_utilization: .5f } }",
    "sequence_batching { direct { minimum_slot_utilization: inf } }",
    "parameters { key: 'a' value: { string_value: '\\x4a\\n' } }",
    "max_batch_size: 0 max_batch_size: 4",
    "12: 3",
)


def _refused(text: str) -> bool:
    try:
        text_format.Parse(text, model_config_pb2.ModelConfig())
    except text_format.ParseError:
        return True
    return False


def _of_text(problem: LintProblem) -> bool:
    """Return whether it is the parser that refuses the text, rather than the checks behind it."""
    if problem.rule == "scheduler-settings-conflict":
        return "a dynamic or a sequence batcher" in problem.message
    return problem.severity is LintSeverity.ERROR or problem.rule == "unknown-field"


def _reported(folder: Path, texts: list[str]) -> dict[int, bool]:
    for number, text in enumerate(texts):
        model = folder / "models" / f"m{number}"
        model.mkdir(parents=True)
        (model / "config.pbtxt").write_text(text, "utf-8", newline="")
    report = lint([folder / "models"], rules={name: catalogue()[name] for name in RULES})
    assert not report.failures
    reported = {int(Path(one.place.path).parts[-2][1:]) for one in report.problems if _of_text(one)}
    return {number: number in reported for number in range(len(texts))}


def test_it_is_reported_of_every_text_that_protobuf_refuses_and_of_no_other(tmp_path: Path) -> None:
    texts = [*sorted(WRITTEN), *ODD]

    reported = _reported(tmp_path, texts)

    assert {texts[number]: stated for number, stated in reported.items()} == {text: _refused(text) for text in texts}


@pytest.mark.parametrize(
    "body",
    [
        b"dynamic_batching {" * 10_000,
        b"x: " + b"[" * 10_000,
        b"x: " + b"[{ x: " * 10_000,
        b"name: 'a'\n" * 450_000,
        b"name: '" + b"\\\\" * 100_000,
        b"name: 'a'\0",
        "name: 'é'".encode("utf-16"),
        b"name: '\xe9'",
    ],
    ids=["blocks", "lists", "both", "large", "open", "zero", "utf-16", "latin-1"],
)
def test_what_cannot_be_read_is_one_short_line_and_its_neighbour_is_linted(body: bytes, tmp_path: Path) -> None:
    for name, content in (("bad", body), ("good", b"max_batch_size: -1\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.pbtxt").write_bytes(content)

    report = lint([tmp_path])

    reported = {Path(one.place.path).parent.name: one for one in report.problems}
    assert sorted(reported) == ["bad", "good"]
    assert len(report.problems) == 2
    assert len(reported["bad"].message) < 200
    assert not report.failures
