"""A verification for a terminal, a chat or a ticket."""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.diagnosis.explanation import WindowFacts
from diagnostics.forecast.verification import Verified
from diagnostics.forecast.verify import Measure, Verification
from diagnostics.render.forecast.markdown import listed_markdown
from diagnostics.render.lines import Style, listed, plain, window_lines, wrapped
from diagnostics.render.markdown_text import escaped, table
from diagnostics.render.verification import words

_COLOURS = {Verified.CONFIRMED: "green", Verified.REFUTED: "red", Verified.INCONCLUSIVE: "yellow"}


def verify_text(found: Verification, windows: tuple[WindowFacts, WindowFacts], style: Style = plain) -> str:
    """Return the report; `style` gives a text a colour by name, plain by default."""
    head = f"{found.judgement.verdict.value}: {words.headline(found)}"
    parts = [
        *(style(line, _COLOURS[found.judgement.verdict]) for line in wrapped(head, hang="  ")),
        *(line for told in _told(found) for line in wrapped(told, "  ", hang="  ")),
        *(line for one in found.measures for line in _measure(one, found)),
        *(["", *wrapped(words.blocks(found))] if words.blocks(found) else []),
        *listed("the prediction assumes:", found.assumptions if found.measures else ()),
        "",
        *(f"{name:<8}{line}" for name, one in zip(("before", "after"), windows, strict=True) for line in _window(one)),
    ]
    return "\n".join(parts) + "\n"


def _told(found: Verification) -> Iterator[str]:
    yield words.no_larger(found)
    yield words.next_step(found)
    if found.changes:
        yield f"changed: {'; '.join(words.changed(found))}"
    else:
        yield words.UNCHANGED
    yield words.load(found)


def _measure(one: Measure, found: Verification) -> Iterator[str]:
    yield ""
    for at, (name, number) in enumerate(words.rows(one)):
        yield f"  {one.statistic if at == 0 else '':<6}{name:<20}{number}"
    if one.judgement.reason != found.judgement.reason:
        yield from wrapped(words.judged(one), "        ")


def _window(one: WindowFacts) -> list[str]:
    lines = window_lines(one)
    return [" ".join(lines)]


def verify_markdown(found: Verification, windows: tuple[WindowFacts, WindowFacts]) -> str:
    """Return the verification as Markdown; names from servers cannot break out of it."""
    return "\n".join(_lines(found, windows)) + "\n"


def _lines(found: Verification, windows: tuple[WindowFacts, WindowFacts]) -> Iterator[str]:
    yield f"**{found.judgement.verdict.value}**: {escaped(words.headline(found))}"
    yield from ("", *(f"- {escaped(told)}" for told in _told(found) if told))
    for one in found.measures:
        yield from table((one.statistic, "90 %"), words.rows(one))
        yield from ("", f"{escaped(words.judged(one))}.")
    if words.blocks(found):
        yield from ("", f"{escaped(words.blocks(found))}.")
    yield from listed_markdown("The prediction assumes", found.assumptions if found.measures else ())
    yield from table(
        ("window", "when"), [(n, " ".join(window_lines(w))) for n, w in zip(("before", "after"), windows, strict=True)]
    )
