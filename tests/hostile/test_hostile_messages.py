"""Names that a server chose in what chat programs are sent: no mention, link, tag or mark of their own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from exporters.sinks.notification import notification
from exporters.sinks.webhook import IncidentEvent
from tests.sinks.incidents import LINKS, SAFETY, incident

NAMES = (
    "<!channel>",
    "<!subteam^S1>",
    "<@U123>",
    "<at>all</at>",
    "<https://evil.example|bank>",
    "@everyone",
    "@\ufe0feveryone",
    "@-here",
    "[bank](https://evil.example)",
    "![x](https://evil.example/x.png)",
    "```x```",
    "`x`",
    "*x*",
    "~x~",
    "\x1b[2J\r\n# x",
    "\u202ex",
)


@pytest.mark.parametrize("name", NAMES, ids=ascii)
@pytest.mark.parametrize("reported", list(IncidentEvent), ids=str)
def test_a_name_is_text_in_a_message(name: str, reported: IncidentEvent) -> None:
    one = incident(subject=replace(SAFETY, model=name, ensemble=name), summary=f"{name} waits", deployment=name)
    sent = notification(reported, one, None, LINKS)

    for text in (sent["title"], sent["text"].replace("](https://diag.example.org", "")):
        assert "<" not in text
        assert "@" not in text
        assert "](" not in text
        assert not {"`", "*", "~"} & set(text.replace("**", ""))
        assert text.replace("\n\n", "").isprintable()
