from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.core.result import Ok

from tests.service.http.door import HASHED, USER, Door, basic, door, lived, show
from tests.service.parts import until
from tests.store.lived import NAME

PATH = "/api/v1/openapi.json"
# Each operation gets so many requests; all together take a few seconds.
REQUESTS = 6


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    history, verdicts = lived(tmp_path_factory.mktemp("history"), count=4)
    with door(history=history) as one:
        show(one.service, verdicts)
        until(lambda: one.json("/api/v1/state")["deployments"])
        yield one


def test_every_answer_is_what_the_document_promises(opened: Door) -> None:
    api = schemathesis.openapi.from_url(f"{opened.url}{PATH}")
    operations = [result.ok() for result in api.get_all_operations() if isinstance(result, Ok)]
    assert len(operations) >= 11

    for operation in operations:

        @given(case=operation.as_strategy())
        @settings(
            max_examples=REQUESTS,
            derandomize=True,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        def meets_the_document(case: schemathesis.Case) -> None:
            if case.query and "wait" in case.query:
                case.query.pop("wait")
            case.call_and_validate(timeout=10)

        meets_the_document()


def test_real_names_are_answered_as_the_document_promises(opened: Door) -> None:
    api = schemathesis.openapi.from_url(f"{opened.url}{PATH}")
    explanation = api["/api/v1/deployments/{name}/explanation"]["GET"]
    why = api["/api/v1/deployments/{name}/checks/{check}"]["GET"]
    moment = api["/api/v1/explain"]["GET"]
    for case in (
        explanation.Case(path_parameters={"name": NAME}),
        why.Case(path_parameters={"name": NAME, "check": "request-failures"}),
        moment.Case(query={"deployment": NAME}),
    ):
        assert case.call_and_validate(timeout=10).status_code == 200


def test_the_document_tells_of_problems_and_of_explanations(opened: Door) -> None:
    document = opened.json(PATH)
    assert document["openapi"].startswith("3.1")
    assert {"Problem", "Explanation", "Explanation_finding", "Incident"} <= set(document["components"]["schemas"])
    assert "$defs" not in json.dumps(document)
    for operations in document["paths"].values():
        for operation in operations.values():
            assert operation["description"]
            assert "422" not in operation["responses"]
            assert "application/problem+json" in operation["responses"]["default"]["content"]


def test_operations_and_schemas_have_short_names_and_everything_is_described(opened: Door) -> None:
    document = opened.json(PATH)
    operations = [one for methods in document["paths"].values() for one in methods.values()]
    names = [one["operationId"] for one in operations]
    tags = {one["name"]: one["description"] for one in document["tags"]}

    assert len(set(names)) == len(names)
    assert all(name.isalpha() and name.islower() for name in names)
    assert all(re.fullmatch(r"[A-Z][A-Za-z]*(_[a-z_]+)?", name) for name in document["components"]["schemas"])
    assert {tag for one in operations for tag in one["tags"]} == set(tags)
    assert all(tags.values())
    assert all(parameter["description"] for one in operations for parameter in one.get("parameters", ()))
    assert document["servers"] == [{"url": "/", "description": "This service."}]


def test_every_answer_has_an_example_of_its_schema(opened: Door) -> None:
    document = opened.json(PATH)
    for methods in document["paths"].values():
        for operation in methods.values():
            for answer in operation["responses"].values():
                for kind in {"application/json", "application/problem+json"} & answer["content"].keys():
                    held = answer["content"][kind]
                    jsonschema.validate(held["example"], {**held["schema"], "components": document["components"]})


@given(path=st.text(max_size=60), query=st.text(max_size=60))
@settings(max_examples=60, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
def test_no_address_makes_the_service_fail(opened: Door, path: str, query: str) -> None:
    from urllib.parse import quote

    answer = opened.ask(f"/{quote(path, safe='/')}?{quote(query, safe='=&')}")
    assert answer.status in (200, 307, 400, 404, 405)


@pytest.mark.parametrize("kinds", [(), ("password",), ("token",), ("password", "token")])
def test_the_document_tells_which_credentials_are_requested(tmp_path: Path, kinds: tuple[str, ...]) -> None:
    files = {"password": f"basic_auth_users:\n  {USER}: {HASHED}\n", "token": "s3cret"}
    settings = {"password": "web.config_file", "token": "web.bearer_token_file"}
    sent = {"password": basic(), "token": "Bearer s3cret"}
    for kind in kinds:
        (tmp_path / kind).write_text(files[kind])
    with door({settings[kind]: str(tmp_path / kind) for kind in kinds}) as one:
        headers = {"Authorization": sent[kinds[0]]} if kinds else {}
        document = one.json(PATH, **headers)
        assert [list(way) for way in document.get("security", [])] == [[kind] for kind in kinds]
        assert set(document["components"].get("securitySchemes", {})) == set(kinds)
        if kinds:
            schemes = {scheme["scheme"] for scheme in document["components"]["securitySchemes"].values()}
            assert schemes == {{"password": "basic", "token": "bearer"}[kind] for kind in kinds}


def test_problems_are_documents_of_their_schema(opened: Door) -> None:
    schema = opened.json(PATH)["components"]["schemas"]["Problem"]
    jsonschema.validate(opened.ask("/api/v1/nope").json(), schema)


def test_the_document_needs_no_other_site(opened: Door) -> None:
    assert opened.ask("/docs").status == 404
    assert opened.ask("/redoc").status == 404
    assert "://" not in Path(PATH).as_posix()
