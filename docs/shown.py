"""Writes what commands print into the pages that show them: `python -m docs.shown`, half a minute.

A `console` block shows all that its command prints, a `text` block as many lines as it holds.
"""

from __future__ import annotations

import contextlib
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

from click.testing import CliRunner

from diagnostics.cli.main import diag

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(
    r"^```(?P<kind>console|text)\n\$ diag (?P<arguments>(?:.*\\\n)*.+)\n(?P<output>(?:.*\n)*?)```$", re.MULTILINE
)


def pages() -> Iterator[Path]:
    """Yield the pages that may show commands."""
    yield ROOT / "README.md"
    yield from sorted((ROOT / "docs").rglob("*.md"))


def output(block: re.Match[str]) -> str:
    """Return what a block should show."""
    with contextlib.chdir(ROOT):
        printed = CliRunner().invoke(diag, shlex.split(block["arguments"].replace("\\\n", " "))).stdout
    if block["kind"] == "console":
        return printed
    return "".join(printed.splitlines(keepends=True)[: block["output"].count("\n")])


def _renewed(block: re.Match[str]) -> str:
    begin = block.start("output") - block.start()
    return block[0][:begin] + output(block) + "```"


def main() -> int:
    """Write the pages whose blocks changed."""
    for page in pages():
        text = page.read_text("utf-8")
        renewed = BLOCK.sub(_renewed, text)
        if renewed != text:
            sys.stdout.write(f"{page.relative_to(ROOT)} showed what is printed no longer\n")
            page.write_text(renewed, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
