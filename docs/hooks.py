"""MkDocs' hook: files outside docs/ become part of the site, so that one link works there and in a clone."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
_TAKEN = (
    "*.md",
    "dashboards/*.json",
    "deploy/compose/*.y*ml",
    "deploy/helm/*/values.yaml",
    "diagnostics/render/*.schema.json",
    "fixtures/*/README.md",
    "rules/**/*.md",
    "rules/alertmanager/*",
    "rules/slo/example.yaml",
    "tests/benchmark/kinds/faulty.py",
    "tests/benchmark/kinds/harmless.py",
)
_LEFT_OUT = {"README.md"}
_LINK = re.compile(r"(\]\()(?![a-z]+:|#|/)([^)\s#]+)")


def on_files(files: Files, config: Any) -> Files:
    """Add what pages link to outside docs/, each at its path in the repository."""
    for path in sorted(path for pattern in _TAKEN for path in ROOT.glob(pattern)):
        name = path.relative_to(ROOT).as_posix()
        if name not in _LEFT_OUT:
            files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Return a page whose links, written for the repository, lead to the same file on the site."""
    here = page.file.src_uri
    written = here if page.file.generated_by else f"docs/{here}"

    def moved(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(written), link[2]))
        return link[1] + posixpath.relpath(_on_site(target), str(PurePosixPath(here).parent))

    return _LINK.sub(moved, markdown)


def _on_site(path: str) -> str:
    """Return where the site has a file of the repository; a folder is its README there."""
    if (ROOT / path / "README.md").is_file():
        path = f"{path}/README.md"
    return "index.md" if path == "README.md" else path.removeprefix("docs/")
