"""Writes what commands print into the pages that show them: `python -m docs.shown [--scores]`, a quarter of a minute.

A `console` block shows all that its command prints, a `text` block as many lines as it holds. With `--scores`, it also
scores the benchmarks again, which takes more than a minute.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from click.testing import CliRunner

from diagnostics.cli.main import diag

ROOT = Path(__file__).parents[1]
_BLOCK = r"^```(?P<kind>console|text)\n\$ {program} (?P<arguments>(?:.*\\\n)*.+)\n(?P<output>(?:.*\n)*?)```$"
BLOCK = re.compile(_BLOCK.format(program="diag"), re.MULTILINE)
SCORES = re.compile(_BLOCK.format(program="python"), re.MULTILINE)


def pages() -> Iterator[Path]:
    """Yield the pages that may show commands."""
    yield ROOT / "README.md"
    yield from sorted((ROOT / "docs").rglob("*.md"))


def output(block: re.Match[str]) -> str:
    """Return what a block should show; of a command with `| tail -N` that many lines."""
    arguments, _, tail = block["arguments"].replace("\\\n", " ").partition(" | tail -")
    words = shlex.split(arguments)
    printed = _printed(words) if block.re is BLOCK else _scored(words)
    lines = printed.splitlines(keepends=True)[-int(tail) if tail else 0 :]
    return "".join(lines if block["kind"] == "console" else lines[: block["output"].count("\n")])


def _printed(words: list[str]) -> str:
    with contextlib.chdir(ROOT):
        return CliRunner().invoke(diag, words).stdout


def _scored(words: list[str]) -> str:
    done = subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return "".join(f"{line.rstrip()}\n" for line in done.stdout.splitlines())


def _renewed(block: re.Match[str]) -> str:
    begin = block.start("output") - block.start()
    return block[0][:begin] + output(block) + "```"


def main() -> int:
    """Write the pages whose blocks changed."""
    options = argparse.ArgumentParser(prog="python -m docs.shown", description="Write what pages show of commands.")
    options.add_argument("--scores", action="store_true", help="score the benchmarks, too")
    scores = options.parse_args().scores
    for page in pages():
        text = page.read_text("utf-8")
        renewed = BLOCK.sub(_renewed, text)
        renewed = SCORES.sub(_renewed, renewed) if scores else renewed
        if renewed != text:
            sys.stdout.write(f"{page.relative_to(ROOT)} showed what is printed no longer\n")
            page.write_text(renewed, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
