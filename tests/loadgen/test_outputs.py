"""A load test as text, Markdown, HTML, JSON and PNG, and the command that shows kept ones."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import html5lib
import jsonschema
import msgspec
import pytest

from diagnostics.bench.block import LoadBlock, RequestLimits
from diagnostics.bench.notes import notes_of
from diagnostics.bench.report import BenchReport, LoadPoint, TargetResult, parse_report
from diagnostics.cli.main import main
from diagnostics.errors import UsageError
from diagnostics.render.bench.document import bench_document
from diagnostics.render.bench.html import bench_html
from diagnostics.render.bench.json import ReportDocument, bench_json, bench_schema
from diagnostics.render.formats.markdown import write as as_markdown
from diagnostics.render.text import as_text
from tests.loadgen.reports import block, curve, diagnosed, report, target, workload
from tests.render.schemas import closed

CAUSE = "single-instance-serialization of safety"
HOSTILE = "<script>alert(1)</script>\x1b[2J|*x*"


@pytest.fixture
def swept() -> BenchReport:
    sent = workload(max_tokens=24, asked=("max_tokens",), streaming=True, counted_by="num_output_tokens")
    shown = {"ttft_p50": 0.05, "ttft_p95": 0.07, "tpot": 0.004, "tokens": 24.0, "good": 90}
    points = {
        1.0: [block(10, 0.1, diagnosis=diagnosed("", "healthy"), **shown) for _ in range(3)],
        4.0: [block(38, 0.105, diagnosis=diagnosed(CAUSE), **shown) for _ in range(3)],
        16.0: [block(40 + n, 0.4, failed=n, diagnosis=diagnosed(CAUSE), **shown) for n in range(3)],
    }
    return report(target(points, workload=sent), limits=RequestLimits(latency=0.5))


@pytest.fixture
def crossing() -> BenchReport:
    fast = curve({1: [0.1, 0.1, 0.101], 4: [0.1, 0.1, 0.101], 16: [0.4, 0.4, 0.41]}, "fast:8000")
    return report(fast, curve({n: [0.2, 0.2, 0.201] for n in (1, 4, 16)}, "broad:8000"))


def test_the_text_tells_numbers_diagnoses_knee_and_goodput(swept: BenchReport) -> None:
    text = as_text(bench_document(swept))
    assert f"at 4: {CAUSE} (3 of 3 blocks)\n    {CAUSE} it is; fix: a second instance" in text
    assert text.count("fix: a second instance") == 1
    assert "at 1: healthy (3 of 3 blocks)" in text
    assert "knee: 4 clients (in 90 % of resamples)" in text
    assert "41 ±7 %" in text
    assert "3/300" in text
    assert "goodput under latency ≤ 500 ms: at most 37.3/s, at 16 clients (90 % of" in text
    assert "4 ms" in text
    assert max(map(len, text.splitlines())) <= 80


def test_what_is_not_seen_of_requests_is_reported_with_what_would_show_it() -> None:
    def reported(**changed: object) -> str:
        shown = as_text(
            bench_document(report(target({1: [block(1, 1, **changed)]}), limits=RequestLimits(ttft=1, tpot=1)))
        )
        return " ".join(shown.split())

    assert "first token of an answer is not seen: take responses one by one (--streaming)" in reported()
    assert "unknown, as tokens are not counted: give --tokenizer" in reported(ttft_p50=0.1)
    assert "unknown, as no request was measured" in reported(requests=0)


def test_no_load_below_one_client_is_requested() -> None:
    falling = report(curve({n: [0.1 * n] * 2 for n in (1, 2, 4)}))
    assert "knee: 1 client (in 90 % of resamples): more load adds" in as_text(bench_document(falling))
    assert "knee: at 1 requests/s or below; measure lower loads" in as_text(
        bench_document(replace(falling, loop="open"))
    )


def test_an_answer_whose_length_is_only_bounded_is_reported_as_such() -> None:
    def reported(**changed: object) -> str:
        return as_text(bench_document(report(target({}, workload=workload(max_tokens=8, **changed)))))

    assert "64 different prompts of 32 words; up to 8 tokens an answer" in reported(asked=("max_tokens",))
    every = ("max_tokens", "min_tokens", "ignore_eos", "greedy")
    assert "one prompt; 8 tokens an answer" in reported(asked=every, variants=1, length=None)


def test_two_models_of_one_server_are_distinguished(crossing: BenchReport) -> None:
    both = [replace(one, name="a:8000", model=model) for one, model in zip(crossing.targets, ("m", "n"), strict=True)]
    assert "route: to m at a:8000 while load" in " ".join(
        as_text(bench_document(replace(crossing, targets=tuple(both)))).split()
    )


def test_a_terminal_without_unicode_gets_bars_of_ascii(swept: BenchReport) -> None:
    picture = as_text(bench_document(swept), unicode=False).partition("mean latency\n")[2]
    assert "####" in picture
    assert picture.isascii()


def test_two_targets_get_a_crossover_and_a_route(crossing: BenchReport) -> None:
    text = " ".join(as_text(bench_document(crossing)).split())
    assert "mean latencies cross at 7.97 clients, interpolated between 4 and 16 (7.9 to 8.02" in text
    assert "route: to fast:8000 while load stays under" in text
    assert "to broad:8000 above" in text


def test_a_test_that_ended_early_says_so_everywhere(swept: BenchReport) -> None:
    ended = BenchReport(
        **{name: getattr(swept, name) for name in swept.__dataclass_fields__} | {"ended": "a:8000 is gone"}
    )
    for shown in (as_text(bench_document(ended)), as_markdown(bench_document(ended)), bench_html(ended)):
        assert "a:8000 is gone" in shown


def test_an_early_end_is_reported_beside_a_report_that_goes_into_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(bench_json(report(target({}), ended="a:8000 is gone")))
    assert main(["bench", str(path), "--output", "json"]) == 3
    assert "ended early: a:8000 is gone" in capsys.readouterr().err
    assert main(["bench", str(path)]) == 3
    shown = capsys.readouterr()
    assert shown.out.endswith("  nothing was measured\n\nended early: a:8000 is gone; results until then are above\n")
    assert not shown.err


def test_the_schema_describes_what_is_written(swept: BenchReport, crossing: BenchReport) -> None:
    described = closed(bench_schema())
    for one in (swept, crossing):
        document = json.loads(bench_json(one))
        jsonschema.validate(document, described)
        assert len(document["summary"]["targets"]) == len(one.targets)
    assert document["summary"]["comparison"]["outcome"] == "crossover"
    assert document["summary"]["targets"][0]["knee"]["load"] == 4


def test_the_schema_has_the_fields_and_types_of_the_document() -> None:
    written, made = json.loads(bench_schema()), msgspec.json.schema(ReportDocument)
    for one in (*written["$defs"].values(), *made["$defs"].values()):
        one.pop("title", None)
        del one["description"]
    for one in written["$defs"].values():
        for about in one.get("properties", {}).values():
            del about["description"]

    assert written["$defs"] == json.loads(json.dumps(made["$defs"]))


def test_a_report_is_read_back_as_it_was_written(swept: BenchReport) -> None:
    assert parse_report(bench_json(swept), "a.json") == swept


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"schema_version": 1, "targets": 3}', b"\xff"])
def test_what_is_no_report_is_refused_in_one_line(body: bytes) -> None:
    with pytest.raises(UsageError, match="is no report of diag bench") as raised:
        parse_report(body, "a.json")
    assert "\n" not in str(raised.value)


def test_a_report_of_a_later_schema_is_refused_whatever_its_fields_are() -> None:
    with pytest.raises(UsageError, match="schema version 2, and 1 is known"):
        parse_report(b'{"schema_version": 2, "targets": "of another shape"}', "a.json")


@pytest.mark.parametrize(
    ("targets", "changed", "stated"),
    [
        ((), {}, "0 targets"),
        ((target({}),), {"seconds": -1.0}, "times that no test has"),
        ((target({}),), {"started": 1e30}, "times that no test has"),
        ((target({}),), {"blocks": 0}, "0 blocks"),
        ((target({1.0: []}),), {}, "0 blocks at load 1"),
        ((target({4.0: [block(1, 1)], 1.0: [block(1, 1)]}),), {}, "loads that do not rise"),
        ((target({-4.0: [block(1, 1)]}),), {}, "loads that do not rise"),
        ((target({1.0: [block(1, 0)]}),), {}, "mean 0 at load 1"),
        ((target({1.0: [block(1e300, 1)]}),), {}, "throughput 1e.300 at load 1"),
        ((target({1.0: [block(1, 1, failed=101)]}),), {}, "101 of 100 requests failed"),
    ],
)
def test_a_report_that_no_test_can_have_measured_is_refused(
    targets: tuple[TargetResult, ...], changed: dict[str, Any], stated: str
) -> None:
    with pytest.raises(UsageError, match=stated):
        parse_report(msgspec.json.encode(report(*targets, **changed)), "a.json")


def test_names_from_servers_stay_names(swept: BenchReport) -> None:
    named = report(target({1.0: [block(1, 1, diagnosis=diagnosed(HOSTILE))]}, HOSTILE, model=HOSTILE))
    assert "\x1b" not in as_text(bench_document(named)) + as_markdown(bench_document(named))
    page = html5lib.parse(bench_html(named), namespaceHTMLElements=False)
    assert len(page.findall(".//script")) == 1
    assert HOSTILE.partition("\x1b")[0] in "".join(page.itertext())


def test_the_page_is_a_valid_document_with_a_point_for_each_load(crossing: BenchReport) -> None:
    parser = html5lib.HTMLParser(namespaceHTMLElements=False)
    page = parser.parse(bench_html(crossing))
    assert not parser.errors
    assert len([each for each in page.iter() if each.get("role") == "listitem"]) == 6
    assert "cross at" in "".join(page.find(".//h1").itertext())


def test_a_page_of_few_loads_is_headed_by_the_most_that_was_answered() -> None:
    assert "<h1>at most 20/s, at 2 clients with 100 ms of mean latency</h1>" in bench_html(report(curve({2: [0.1]})))
    assert "<h1>nothing was measured</h1>" in bench_html(report(curve({})))


def test_the_load_of_others_is_reported_where_it_matters() -> None:
    def beside(others: float | None) -> LoadBlock:
        return block(40, 0.1, diagnosis=replace(diagnosed(""), others=others))

    points = [LoadPoint(load=load, blocks=(beside(found),)) for load, found in ((1.0, None), (2.0, 1.0), (4.0, 37.0))]
    (reported,) = [note for note in notes_of(workload(), points) if "others" in note]
    assert reported.startswith("others asked the same model at 4, up to 37 requests/s")


def test_markdown_has_a_row_for_each_load(swept: BenchReport) -> None:
    reported = as_markdown(bench_document(swept))
    assert len([line for line in reported.splitlines() if line.startswith("|")]) == 2 + 3
    assert f"- at 16: {CAUSE} (3 of 3 blocks)" in reported


def test_a_picture_is_a_png(crossing: BenchReport, tmp_path: Path) -> None:
    path, picture = tmp_path / "a.json", tmp_path / "a.png"
    path.write_bytes(bench_json(crossing))
    assert main(["bench", str(path), "--png", str(picture)]) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_kept_reports_are_shown_compared_or_refused(
    swept: BenchReport, crossing: BenchReport, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def kept(name: str, one: BenchReport) -> str:
        (tmp_path / name).write_bytes(bench_json(one))
        return str(tmp_path / name)

    a, b = (kept(f"{n}.json", report(one)) for n, one in enumerate(crossing.targets))
    both, other = kept("both.json", crossing), kept("other.json", swept)
    assert main(["bench", a, b]) == 0
    compared = capsys.readouterr().out
    assert main(["bench", both]) == 0
    assert capsys.readouterr().out == compared
    assert main(["bench", a, other]) == 2
    assert "not comparable, as these differ: responses: whole against one by one" in capsys.readouterr().err
    assert main(["bench", a, a]) == 2
    assert "is the same report twice" in capsys.readouterr().err
    assert main(["bench", a, both]) == 2
    assert "holds two targets already" in capsys.readouterr().err
    assert main(["bench", a, "localhost:8000"]) == 2
    assert "measure one with --output json first" in capsys.readouterr().err
    assert main(["bench", a, "--slo", "latency < 1s"]) == 2
    assert "--slo: is for a measurement, and a report is of one that was made" in capsys.readouterr().err


def test_a_target_that_answered_no_request_is_an_error(tmp_path: Path) -> None:
    silent = replace(block(0.0, 0.1, failed=100, error="HTTP 500"), mean=None)
    for name, blocks, code in (("silent", [silent], 3), ("failing", [silent, block(1.0, 0.1, failed=99)], 0)):
        (tmp_path / name).write_bytes(bench_json(report(target({1.0: blocks}))))
        assert main(["bench", str(tmp_path / name)]) == code
