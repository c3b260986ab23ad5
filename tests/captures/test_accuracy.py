"""Every recorded incident is diagnosed rightly, and what is left out or told otherwise never makes a wrong cause."""

from __future__ import annotations

import pytest

from diagnostics.checks.catalogue import catalogue
from diagnostics.diagnosis.explanation import Verdict
from diagnostics.diagnosis.link import CAUSED_BY
from diagnostics.wire.records import BodyKind
from tests.captures.accuracy import ablated, main, perturbed, row_of
from tests.captures.judging import Outcome, judge, judge_whole
from tests.captures.recorded import FOLDER, explained_whole, explanation_of, labels, scrapes_of
from tests.captures.variations import ABLATIONS, PERTURBATIONS

NAMES = tuple(labels())
# Every capture meets half of the perturbations, every perturbation half of the captures; `make accuracy` runs all.
EVERY_OTHER = [
    (name, perturbation)
    for i, name in enumerate(NAMES)
    for j, perturbation in enumerate(PERTURBATIONS)
    if (i + j) % 2 == 0
]


def test_every_capture_has_a_label_and_every_label_a_capture() -> None:
    assert {path.name.removesuffix(".tar.xz") for path in FOLDER.glob("*.tar.xz")} == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_whole_capture_shows_its_cause_first_and_nothing_that_is_not_labelled(name: str) -> None:
    found = judge_whole(labels()[name], explained_whole(name))

    assert found.outcome is not Outcome.WRONG, found.wrong


@pytest.mark.parametrize("name", [name for name in NAMES if not labels()[name].decidable])
def test_a_cause_without_a_check_yields_no_actionable_wrong_one(name: str) -> None:
    explanation = explained_whole(name)

    assert {finding.check for finding in explanation.actionable} <= labels()[name].allowed
    assert explanation.actionable or explanation.verdict is not Verdict.DEGRADED


@pytest.mark.parametrize("ablation", ABLATIONS)
@pytest.mark.parametrize("name", NAMES)
def test_with_less_to_see_it_is_the_same_cause_or_none(name: str, ablation: str) -> None:
    found = ablated(name, ablation)

    assert found.outcome is not Outcome.WRONG, found.wrong


@pytest.mark.parametrize(("name", "perturbation"), EVERY_OTHER)
def test_reported_otherwise_it_is_the_same_cause(name: str, perturbation: str) -> None:
    found = perturbed(name, perturbation)

    assert found.outcome is not Outcome.WRONG, found.wrong


@pytest.mark.parametrize("name", NAMES)
def test_claims_never_exceed_what_a_request_takes(name: str) -> None:
    explanation = explained_whole(name)
    shares: dict[tuple[str, str | None], float] = {}
    for finding in explanation.findings:
        entry = (finding.subject.server, finding.subject.ensemble or finding.subject.model)
        shares[entry] = shares.get(entry, 0.0) + finding.impact.share_of_latency

    assert all(share <= 1.0 + 1e-9 for share in shares.values())


@pytest.mark.parametrize("name", ["cpu-handed-single-instance", "gpu-handed-queue-overflow"])
def test_the_same_capture_gives_the_same_answer_twice(name: str) -> None:
    first, second = (explanation_of(scrapes_of(name)) for _ in range(2))

    assert first.findings == second.findings
    assert first.anatomy == second.anatomy
    assert first.blind_spots == second.blind_spots


def test_a_fingerprint_stays_when_only_part_of_the_capture_is_seen() -> None:
    whole = scrapes_of("cpu-handed-single-instance")
    middle = sorted(scrape.at for scrape in whole if scrape.kind is BodyKind.METRICS)[8]
    first_part = [scrape for scrape in whole if scrape.at <= middle]

    ids = {explanation_of(part).actionable[0].id for part in (whole, first_part)}

    assert len(ids) == 1


class TestTheJudge:
    """It must be able to say wrong; otherwise the suite above holds nothing."""

    def test_another_captures_answer_is_wrong(self) -> None:
        explanation = explained_whole("cpu-handed-batch-collapse")

        assert judge(labels()["cpu-handed-single-instance"], explanation).outcome is Outcome.WRONG

    def test_the_right_cause_on_another_model_is_wrong(self) -> None:
        explanation = explained_whole("cpu-handed-cheap-step-serializes")
        found = judge(labels()["cpu-handed-single-instance"], explanation)

        assert found.wrong == "single-instance-serialization on model tokenizer, not safety"

    def test_silence_on_a_whole_incident_with_a_check_is_wrong(self) -> None:
        explanation = explained_whole("cpu-handed-healthy")

        assert judge_whole(labels()["cpu-handed-single-instance"], explanation).outcome is Outcome.WRONG

    def test_noise_on_a_healthy_capture_is_wrong(self) -> None:
        explanation = explained_whole("cpu-handed-single-instance")

        assert judge(labels()["cpu-handed-healthy"], explanation).outcome is Outcome.WRONG


class TestTheVariations:
    """Each must change what it says it changes."""

    def test_ablations_leave_out_what_they_name(self) -> None:
        whole = scrapes_of("gpu-handed-single-instance")
        absent = {
            "no-statistics": BodyKind.STATISTICS,
            "no-traces": BodyKind.TRACES,
            "no-nvml": BodyKind.NVML,
            "no-configuration": BodyKind.CONFIG,
            "no-metrics": BodyKind.METRICS,
            "no-index": BodyKind.INDEX,
        }

        for ablation, kind in absent.items():
            assert any(scrape.kind is kind for scrape in whole), kind
            assert not any(scrape.kind is kind for scrape in ABLATIONS[ablation](whole))

    @pytest.mark.parametrize("variation", ["shuffled", "renamed", "truncated", "idle-models", "shifted"])
    def test_perturbations_alter_the_bodies_or_times(self, variation: str) -> None:
        whole = scrapes_of("cpu-handed-single-instance")

        assert list(PERTURBATIONS[variation](whole)) != list(whole)

    def test_a_reset_is_seen_as_one_new_epoch_of_every_model(self) -> None:
        evidence = explanation_of(ABLATIONS["reset"](scrapes_of("cpu-handed-single-instance"))).evidence
        server = evidence.window.servers["triton-0"]  # type: ignore[attr-defined]

        for tables in server.tables.values():
            for key, table in tables.items():
                delta = table.delta(0.0, 1e12)
                assert delta is not None, key
                assert delta.resets == 1, key

    def test_a_reset_leaves_the_requests_counted_as_they_were(self) -> None:
        whole = scrapes_of("cpu-handed-single-instance")
        requests = [explanation_of(scrapes).anatomy[0].requests for scrapes in (whole, ABLATIONS["reset"](whole))]

        assert requests[0] == pytest.approx(requests[1], rel=0.02)


def test_the_table_exits_with_zero_when_nothing_is_wrong(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "cpu-handed-single-instance"
    monkeypatch.setattr("tests.captures.accuracy.labels", lambda: {name: labels()[name]})

    code = main()

    assert code == 0
    assert "top-1 hits 1 of 1" in capsys.readouterr().out


def test_a_row_lists_what_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = {"cpu-handed-single-instance": labels()["cpu-handed-healthy"]}
    monkeypatch.setattr("tests.captures.accuracy.labels", lambda: wrong)

    lines = list(row_of("cpu-handed-single-instance").wrong())

    assert lines[0] == "cpu-handed-single-instance (whole): a healthy capture is degraded"


def test_labels_name_only_designed_checks() -> None:
    designed = {name for label in labels().values() for name in label.causes | label.also | label.never}

    assert set(CAUSED_BY) <= designed | set(catalogue())
