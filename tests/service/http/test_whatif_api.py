"""What a change would do, asked of the running service: read-only, one at a time, by the API and by a form."""

from __future__ import annotations

import json
from collections.abc import Iterator

import jsonschema
import pytest

from diagnostics.diagnosis.change_options import as_given, changes_given
from diagnostics.render.forecast.json import forecast_schema
from diagnostics.service.http import what_if
from tests.service.serving import Serving, recorded
from tests.service.test_service_pages import requested

NAME = "chat"
CHANGE = "set=safety.instance_group.count%3D2"


@pytest.fixture(scope="module")
def serving() -> Iterator[Serving]:
    with Serving((NAME, "new")) as made:
        made.stated(NAME, recorded("cpu-handed-single-instance"))
        yield made


def ask(serving: Serving, query: str) -> tuple[int, dict[str, str], str]:
    status, headers, body = requested(serving, f"/api/v1/whatif?deployment={NAME}&{query}")
    return status, headers, body.decode()


def test_a_change_is_forecast_from_the_newest_window_as_the_command_does(serving: Serving) -> None:
    status, _, body = ask(serving, CHANGE)
    assert status == 200
    report = json.loads(body)
    jsonschema.validate(report, json.loads(forecast_schema()))
    now, then = (report[side]["end_to_end_seconds"]["mean"] for side in ("baseline", "predicted"))
    assert then < 0.7 * now
    assert [one["model"] for one in report["patches"]] == ["safety"]
    status, headers, text = ask(serving, f"{CHANGE}&output=text")
    assert (status, headers["content-type"]) == (200, "text/plain; charset=utf-8")
    assert text.startswith("chat: modelled mean ")


@pytest.mark.parametrize(
    ("query", "stated"),
    [
        ("", "set, rate, clients: say what to change; as in set=safety.instance_group.count=2"),
        ("set=safty.instance_group.count%3D2", "set: there is no model 'safty'; did you mean safety?"),
        ("set=safety.count", "set: 'safety.count' is not MODEL.SETTING=VALUE"),
        ("rate=fast", "rate: cannot read the rate 'fast'"),
        ("clients=8", "clients: requests arrive whatever the server does; give rate"),
        ("rate=2x&entry=chatt", "entry: nothing named 'chatt' is called; did you mean chat?"),
        ("&".join(["set=safety.instance_group.count%3D2"] * 9), "set: "),
        (f"set={'x' * 201}", "set"),
        ("rat=2x", "rat: there is no such parameter"),
    ],
)
def test_what_cannot_be_read_is_refused_in_the_words_of_the_api(serving: Serving, query: str, stated: str) -> None:
    status, _, body = ask(serving, query)
    assert status == 400
    assert json.loads(body)["detail"].startswith(stated)


def test_a_deployment_without_a_verdict_or_of_another_name_is_told_apart(serving: Serving) -> None:
    statuses = {name: requested(serving, f"/api/v1/whatif?deployment={name}&rate=2x")[0] for name in ("new", "other")}
    assert statuses == {"new": 503, "other": 404}


def test_one_forecast_is_made_at_a_time(serving: Serving) -> None:
    with what_if._in_turn():
        status, headers, body = ask(serving, CHANGE)
    assert (status, headers["retry-after"]) == (503, "5")
    assert "another forecast is being made" in body
    assert ask(serving, "rate=1.2x")[0] == 200


def page(serving: Serving, path: str) -> tuple[int, str]:
    status, _, body = requested(serving, path)
    return status, body.decode()


def test_a_finding_has_a_form_with_its_own_change_which_leads_to_the_forecast(serving: Serving) -> None:
    status, shown = page(serving, f"/deployments/{NAME}")
    assert status == 200
    form = shown[shown.index(f'action="/deployments/{NAME}/what-if"') :].partition("</form>")[0]
    assert 'name="set" value="safety.instance_group.count=2"' in form
    assert 'name="entry" value="chat"' in form
    assert 'method="post"' not in form

    status, shown = page(
        serving, f"/deployments/{NAME}/what-if?set=safety.instance_group.count%3D3&rate=1.1x&entry=chat"
    )
    assert status == 200
    assert "chat: modelled mean " in shown
    assert "safety instance_group.count 1 → 3" in shown
    assert 'value="safety.instance_group.count=3"' in shown
    assert 'value="1.1x"' in shown


def test_a_request_that_cannot_be_read_says_why_on_the_page_and_keeps_what_was_written(serving: Serving) -> None:
    written = "%3Cscript%3E.count%3D2"
    status, shown = page(serving, f"/deployments/{NAME}/what-if?set={written}&rate=")
    assert status == 200
    assert "there is no model" in shown
    assert "<script>.count" not in shown
    assert "&lt;script&gt;.count=2" in shown
    assert page(serving, "/deployments/other/what-if")[0] == 404


def test_the_form_alone_asks_for_a_change(serving: Serving) -> None:
    status, shown = page(serving, f"/deployments/{NAME}/what-if")
    assert status == 200
    assert 'placeholder="MODEL.SETTING=VALUE"' in shown
    assert "Forecast</h2>" not in shown


@pytest.mark.parametrize(
    "texts",
    [
        ("safety.instance_group.count=2",),
        ("safety.dynamic_batching.preferred_batch_size=4,8", "safety.dynamic_batching.preserve_ordering=true"),
        ("safety.dynamic_batching=none",),
        ("safety.model_warmup=1,8",),
    ],
)
def test_a_change_is_written_as_it_is_read(texts: tuple[str, ...]) -> None:
    (change,) = changes_given(texts, ["safety"])
    assert as_given(change) == texts
