from __future__ import annotations

from itertools import pairwise

from markdown_it import MarkdownIt
from markdown_it.token import Token

from diagnostics.diagnosis.explanation import Explanation
from diagnostics.render.plain import clean, escaped
from diagnostics.signals.signal import Reading
from diagnostics.units import Unit
from diagnostics.wire.records import BodyKind
from tests.builders import Stage, SyntheticTriton, model_config
from tests.render.shown import markdown
from tests.render.situations import HOSTILE, situations, with_line

READER = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])


def parsed(explanation: Explanation) -> list[Token]:
    tokens = READER.parse(markdown(explanation))
    return [*tokens, *(child for token in tokens for child in token.children or ())]


def words(explanation: Explanation) -> str:
    return "".join(token.content for token in parsed(explanation) if token.type == "text")


def test_names_make_no_markup_of_their_own(situation: Explanation) -> None:
    kinds = {token.type for token in parsed(situation)}

    assert not kinds & {"html_inline", "html_block", "link_open", "image", "em_open", "s_open", "code_inline", "hr"}


def test_time_that_no_stage_accounts_for_is_derived_in_words_where_it_was_not_traced() -> None:
    stage = Stage("outer", rate=20, execution=0.01, overhead=0.284, config=model_config("outer"))
    reported = SyntheticTriton(models=(stage,)).without(BodyKind.CONFIG).explain()

    assert "284 ms is the duration of outer's requests less the queue, input, compute and output" in words(reported)
    assert "outside the model" not in words(reported)


def test_evidence_against_a_finding_is_not_shown_as_support() -> None:
    stated = with_line(situations()["degraded"], Reading.of(0.05, Unit.SECONDS, "statistics"), met=False)
    speaks = [line[2] for line in markdown(stated).splitlines() if " | statistics" in line]

    assert speaks == [*("+" * (len(speaks) - 1)), "-"]


def test_only_the_words_of_the_report_are_bold(situation: Explanation) -> None:
    tokens = parsed(situation)
    bold = {after.content for at, after in pairwise(tokens) if at.type == "strong_open"}

    assert bold <= {situation.verdict.value}


def test_every_row_of_a_table_has_as_many_cells_as_its_head(situation: Explanation) -> None:
    cells = 0
    for token in READER.parse(markdown(situation)):
        if token.type == "thead_open":
            heads, cells = 0, 0
        if token.type == "th_open":
            heads += 1
        if token.type == "tr_open":
            cells = 0
        cells += token.type == "td_open"
        if token.type == "tr_close" and cells:
            assert cells == heads


def test_hostile_names_read_as_they_are() -> None:
    for kind, name in HOSTILE.items():
        read = name.replace("\ud800", "\N{REPLACEMENT CHARACTER}")
        assert clean(read) in words(situations()[f"hostile {kind}"]), kind


def test_a_patch_stays_inside_its_fence(situation: Explanation) -> None:
    made = [finding.advice.patch for finding in situation.findings if finding.advice and finding.advice.patch]
    fences = [token for token in READER.parse(markdown(situation)) if token.type == "fence" and token.info != "sh"]

    assert len(fences) == len(made)


def test_the_answer_and_the_step_come_first(degraded: Explanation) -> None:
    lines = markdown(degraded).splitlines()

    assert lines[0].startswith("**degraded**: chat mean 211 ms, 38 requests/s, 78 % of the mean avoidable: single-")
    assert lines[2].startswith("one instance of safety busy 94 % of the time")
    assert lines[4] == "- fix: raise instance_group count of safety from 1 to 2"


def test_runs_of_underscores_are_no_emphasis() -> None:
    assert READER.render(escaped("__init__ a_b _i_")) == "<p>__init__ a_b _i_</p>\n"
