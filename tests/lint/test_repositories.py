from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from trees import BATCHES, RULE, model, rule_that, write
from tritonclient.grpc import model_config_pb2

from diagnostics.errors import CollectError, MalformedBody
from diagnostics.lint.block import ConfigMessage, templates
from diagnostics.lint.catalogue import catalogue
from diagnostics.lint.config_fields import WHOLE_NUMBERS, FieldType, fields_of, is_message, words_of
from diagnostics.lint.deployment_files import containers_of, documents_of, inner
from diagnostics.lint.problem import SourceLocation, TextFile
from diagnostics.lint.queries import Use, queries_of
from diagnostics.lint.repository import read_project
from diagnostics.lint.rule import Link
from diagnostics.lint.run import lint
from diagnostics.tuning.pbtxt import parse


@pytest.fixture(autouse=True)
def _inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def _block(text: str) -> ConfigMessage:
    return ConfigMessage(file=TextFile(path="config.pbtxt", text=text), message=parse(text))


def _requested(*paths: str) -> dict[str, list[str]]:
    return {one.shown: sorted(one.requested) for one in read_project(map(Path, paths)).repositories}


def test_repositories_are_found_at_any_depth_and_not_inside_models(tmp_path: Path) -> None:
    write(
        tmp_path,
        {**model("a"), "deep/er/b/config.pbtxt": "", "models/a/1/x/config.pbtxt": "", ".git/c/config.pbtxt": ""},
    )

    assert _requested(".") == {"deep/er": ["b"], "models": ["a"]}


@pytest.mark.parametrize(
    ("inside", "path", "shown"),
    [
        (".", "models/a", "models/a/config.pbtxt:3:1"),
        (".", "models/a/config.pbtxt", "models/a/config.pbtxt:3:1"),
        ("models", "a", "a/config.pbtxt:3:1"),
        ("models/a", ".", "config.pbtxt:3:1"),
        ("models/a", "config.pbtxt", "config.pbtxt:3:1"),
        ("models/b", "../a", "../a/config.pbtxt:3:1"),
    ],
)
def test_a_model_named_alone_is_reported_of_alone_and_knows_its_neighbours(
    inside: str, path: str, shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, model("a") | model("b"))
    monkeypatch.chdir(tmp_path / inside)

    report = lint([Path(path)], rules={RULE: BATCHES})

    assert [str(problem.place) for problem in report.problems] == [shown]
    assert set(report.project.repositories[0].models) == {"a", "b"}


def test_a_model_without_a_configuration_is_known_by_what_its_version_holds(tmp_path: Path) -> None:
    write(tmp_path, {"models/a/3/model.onnx": b"", "models/a/1/note.txt": b"", "models/note/1/note.txt": b""})

    (repository,) = read_project([Path("models")]).repositories

    (found,) = repository.models.values()
    assert (found.versions, found.backend, found.max_batch_size, found.config) == ((1, 3), "onnxruntime", None, None)


def test_links_in_a_circle_end_and_a_link_to_a_model_is_a_model(tmp_path: Path) -> None:
    circle = {"models/b": Link(to="a"), "models/up": Link(to=".."), "x/y": Link(to="../z"), "z/x": Link(to="../x")}
    write(tmp_path, {**model("a"), **circle})

    project = read_project([Path()])

    assert [(one.shown, sorted(one.requested)) for one in project.repositories] == [("models", ["a", "b"])]
    assert [trouble.place.path for trouble in project.troubles] == ["models/up", "x/y/x"]


def test_what_cannot_be_read_is_one_line_each_and_the_rest_is_linted(tmp_path: Path) -> None:
    broken: dict[str, str | bytes] = {
        "models/b/config.pbtxt": "x: [",
        "models/c/config.pbtxt": b"\0",
        "models/d/config.pbtxt": b"\xff",
    }
    write(
        tmp_path,
        {**model("a"), **broken, "models/e/config.pbtxt": Link(to="nowhere"), "f.json": "{", "g.yaml": "services: ["},
    )
    rules = {name: catalogue()[name] for name in ("broken-text-format", "unreadable-file")} | {RULE: BATCHES}

    report = lint([Path()], rules=rules)

    reported = {problem.place.path: problem.severity.value for problem in report.problems}
    configurations = {f"models/{name}/config.pbtxt": "error" for name in "bcde"}
    assert reported == {"models/a/config.pbtxt": "warning", **configurations, "g.yaml": "info"}
    assert (report.models, report.unread, len(report.problems)) == (5, 4, 6)


@pytest.mark.parametrize("path", ["nowhere", "empty", "note.txt"])
def test_nothing_to_lint_is_an_error(path: str, tmp_path: Path) -> None:
    write(tmp_path, {"empty/note.txt": "", "note.txt": ""})

    with pytest.raises(CollectError, match=path):
        lint([Path(path)])


def test_a_rule_that_fails_hides_nothing_of_the_others(tmp_path: Path) -> None:
    write(tmp_path, model("a"))

    report = lint([Path()], rules={"broken": rule_that(lambda _: 1 / 0), RULE: BATCHES})

    assert [problem.message for problem in report.problems] == ["a batches"]
    assert "ZeroDivisionError" in report.failures[0]


def test_places_count_lines_and_characters_from_one() -> None:
    block = _block('# é\nname: "é" max_batch_size: 4\r\ninput { dims: [ 1 ] }')

    assert block.at("max_batch_size") == SourceLocation(path="config.pbtxt", line=2, column=11)
    assert block.blocks("input")[0].at("dims") == SourceLocation(path="config.pbtxt", line=3, column=9)
    assert block.at("missing") == block.place == SourceLocation(path="config.pbtxt", line=2, column=1)


def test_what_is_left_out_has_its_default_and_what_is_a_template_is_unknown() -> None:
    block = _block(
        "max_batch_size: ${size}\ninput { dims: [ 1, ${n} ] }\nparameters { key: 'k' value { string_value: '${v}' } }"
    )

    assert block.integer("max_batch_size", default=7) is None
    assert block.blocks("input")[0].integers("dims") is None
    assert block.map("parameters")["k"].value is None
    assert (block.integer("missing", default=7), block.text("missing"), block.has("missing")) == (7, "", False)
    assert [text.written for text in templates(block)] == ["${size}", "${n}", "'${v}'"]


def test_a_template_in_the_place_of_a_field_makes_unknown_what_is_not_written() -> None:
    block = _block('name: "a"\n${more}\n')

    assert (block.text("name"), block.has("missing"), block.text("missing"), block.integers("missing")) == (
        "a",
        None,
        None,
        None,
    )


def test_a_configuration_of_a_newer_release_is_read() -> None:
    assert _block("newer { field: [ { x: 1 } ] }\nmax_batch_size: 4").integer("max_batch_size") == 4
    with pytest.raises(MalformedBody):
        _block("newer {")


RULES_FILE = """groups:
- name: g
  rules:
  - alert: Slow
    expr: |
      rate(a[5m])
        > 1
  - record: r
    expr: sum(b)
"""
DASHBOARD = (
    '{"panels": [{"title": "T", "fieldConfig": {"defaults": {"unit": "s"}}, "targets": [{"expr": "c{d=\\"e\\"}"}]}]}'
)


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        (
            "r.yaml",
            RULES_FILE,
            [
                (Use.ALERT, "Slow", "", "r.yaml:6:7", "rate(a[5m])\n  > 1\n"),
                (Use.RECORDING, "r", "", "r.yaml:9:11", "sum(b)"),
            ],
        ),
        ("d.json", DASHBOARD, [(Use.PANEL, "T", "s", "d.json:1:94", 'c{d="e"}')]),
        ("compose.yaml", "services: { a: { image: !Ref b } }", []),
    ],
)
def test_queries_are_found_with_their_places(path: str, text: str, expected: list[object]) -> None:
    file = TextFile(path=path, text=text)

    found = [(one.use, one.name, one.unit, str(one.place), one.expr) for one in queries_of(file, documents_of(file))]

    assert found == expected


def test_yaml_that_refers_to_itself_a_billion_times_takes_no_longer_than_its_text() -> None:
    lines = ["services:", "  a0: &a0 [x]"]
    lines += [f"  a{n}: &a{n} [{', '.join(f'*a{n - 1}' for _ in range(9))}]" for n in range(1, 40)]

    assert sum(1 for _ in inner(documents_of(TextFile(path="c.yaml", text="\n".join(lines))))) < 1000


def test_a_command_of_endless_aliases_holds_the_words_that_are_written() -> None:
    doubled = "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 60))
    service = "services: {triton: {image: *a59, command: [tritonserver, *a59, 8], environment: *a59}}\n"
    (container,) = containers_of(documents_of(TextFile(path="compose.yaml", text=f"a0: &a0 x\n{doubled}{service}")))

    assert (container.image, container.words) == ("", ("tritonserver", "8"))


def test_links_to_themselves_hide_nothing_beside_them(tmp_path: Path) -> None:
    loops = {"f.yaml": Link(to="f.yaml"), "x/models/a/1": Link(to="1"), "x/g.json": Link(to="g.json")}
    write(tmp_path, {**model("a"), "x/models/a/config.pbtxt": "", "x/models/b/config.pbtxt": "", **loops})

    project = read_project([Path()])

    assert [(one.shown, sorted(one.requested)) for one in project.repositories] == [
        ("models", ["a"]),
        ("x/models", ["a", "b"]),
    ]
    assert [trouble.place.path for trouble in project.troubles] == ["f.yaml", "x/g.json"]


def test_the_known_fields_have_the_types_of_tritons_own_description() -> None:
    seen, stack = set[str](), [model_config_pb2.ModelConfig.DESCRIPTOR]
    while stack:
        message = stack.pop()
        known = fields_of(_type_name(message))
        for field in message.fields:
            choice = field.containing_oneof.name if field.containing_oneof else ""
            type_ = _field_type(field)
            repeated = field.is_repeated if hasattr(field, "is_repeated") else field.label == field.LABEL_REPEATED
            assert known[field.name] == FieldType(type=type_, repeated=repeated, choice=choice), field.full_name
            if field.enum_type:
                assert words_of(type_) == tuple(value.name for value in field.enum_type.values)
                assert [value.number for value in field.enum_type.values] == list(range(len(words_of(type_))))
            assert is_message(type_) is bool(field.message_type)
            if field.message_type and field.message_type.full_name not in seen:
                seen.add(field.message_type.full_name)
                stack.append(field.message_type)


def _type_name(message: Any) -> str:
    if not message.GetOptions().map_entry:
        return str(message.full_name).removeprefix("inference.")
    key, value = (_field_type(message.fields_by_name[name]) for name in ("key", "value"))
    return f"{{{key},{value}}}"


def _field_type(field: Any) -> str:
    if field.message_type:
        return _type_name(field.message_type)
    if field.enum_type:
        return str(field.enum_type.full_name).removeprefix("inference.")
    scalars = (*WHOLE_NUMBERS, "string", "bool", "float", "double")
    return next(name for name in scalars if field.type == getattr(field, f"TYPE_{name.upper()}"))


@pytest.mark.parametrize(("path", "files"), [("models", ["compose.yaml"]), (".", ["compose.yaml"]), ("deep", [])])
def test_deployment_files_beside_a_repository_are_read_and_no_others_outside(
    path: str, files: list[str], tmp_path: Path
) -> None:
    write(tmp_path, {**model("a"), "compose.yaml": "services: {}", "deep/er/b/config.pbtxt": ""})

    assert list(read_project([Path(path)]).files) == files


def test_overlapping_paths_are_read_once(tmp_path: Path) -> None:
    write(tmp_path, model("a") | model("b"))

    assert lint([Path("models/a"), Path("models"), Path()], rules={RULE: BATCHES}).models == 2


def test_more_deployment_files_than_can_be_read_are_counted_and_not_linted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compose = 'services: { a: { image: "tritonserver" } }\n'
    write(tmp_path, {f"{name}.yaml": compose for name in "abcd"})
    monkeypatch.setattr("diagnostics.lint.run.MOST_DEPLOYMENT_BYTES", len(compose))

    report = lint([Path()], rules={"unreadable-file": catalogue()["unreadable-file"]})

    assert report.files == 2
    assert [one.place.path for one in report.problems] == ["c.yaml"]
    assert "this file and 1 more are not linted" in report.problems[0].message


def test_progress_is_reported_for_each_model_and_file(tmp_path: Path) -> None:
    write(tmp_path, {**model("a"), "f.yaml": "services: { a: { image: x } }\n"})
    reported: list[str] = []

    lint([Path()], rules={RULE: BATCHES}, progress=reported.append)

    assert reported == ["0 models, now a", "0 of 1 files beside the models, now f.yaml"]


def test_a_large_file_without_a_word_of_what_rules_know_is_not_parsed(tmp_path: Path) -> None:
    manifest = "apiVersion: apps/v1\nkind: Deployment\nspec: [\n" + "# nothing\n" * 30_000
    write(tmp_path, {**model("a"), "large.yaml": manifest, "known.yaml": f"{manifest}# triton\n"})

    report = lint([Path()], rules={"unreadable-file": catalogue()["unreadable-file"], RULE: BATCHES})

    assert [one.place.path for one in report.problems if one.rule != RULE] == ["known.yaml"]


@pytest.mark.parametrize(
    ("backend", "versions", "empty"),
    [
        ("python", ("1",), True),
        ("python", ("1", "2"), True),
        ("onnxruntime", ("1",), True),
        ("tensorrtllm", ("1",), False),
        ("python", (), False),
    ],
)
def test_the_folder_of_the_latest_version_holds_the_model(
    tmp_path: Path, backend: str, versions: tuple[str, ...], empty: bool
) -> None:
    write(tmp_path, {"models/a/config.pbtxt": f'backend: "{backend}"\n'})
    for version in versions:
        (tmp_path / "models/a" / version).mkdir()
    if len(versions) > 1:
        (tmp_path / "models/a/1/model.py").write_text("class TritonPythonModel: ...\n")

    found = [one.message for one in lint([Path("models")]).problems if one.rule == "no-version-served"]

    assert found == ([f"the folder of version {versions[-1]} is empty: the model does not load"] if empty else [])


@pytest.mark.parametrize(
    ("backend", "beside", "severity"),
    [("python", True, "error"), ("onnxruntime", True, "warning"), ("python", False, None)],
)
def test_a_model_without_a_version_folder_does_not_load(
    tmp_path: Path, backend: str, beside: bool, severity: str | None
) -> None:
    write(tmp_path, {"models/a/config.pbtxt": f'backend: "{backend}"\n', **model("b")})
    if beside:
        write(tmp_path, {"models/b/1/model.py": "class TritonPythonModel: ...\n"})

    found = [one for one in lint([Path("models")]).problems if one.rule == "no-version-served"]

    message = "a has no version folder: the model does not load"
    assert [(one.message, one.severity.value) for one in found] == ([(message, severity)] if severity else [])
