"""Writes the plain manifests, which are what the Helm chart renders: `python -m deploy [--check]`."""

from __future__ import annotations

import argparse
import io
import sys
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from diagnostics.cli.generated_files import update
from diagnostics.errors import not_installed

try:
    from helm_python import Chart
except ModuleNotFoundError as error:
    sys.exit(f"error: {not_installed(error, 'test', where='python -m deploy')}")

FOLDER = Path(__file__).parent
CHART = FOLDER / "helm" / "triton-diagnostics"
PLAIN = FOLDER / "kubernetes"
# What these templates hold lies in rules/ and dashboards/ already, and is taken from there.
ELSEWHERE = {"prometheusrule.yaml": "rules", "dashboards.yaml": "dashboards"}
# What Helm alone runs: `helm test`.
HOOKS = "tests"
_HEAD = "# Rendered from the Helm chart by `python -m deploy`; change that.\n"
_COMMON: Mapping[str, Any] = {"fullnameOverride": "diag", "prometheusOperator": "always"}
VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "single": _COMMON,
    "fleet": {
        **_COMMON,
        "workers": 3,
        "database": {"url": "postgresql://diag@postgresql.databases.svc/diag", "secret": "diag-database"},
    },
}


def rendered(values: Mapping[str, Any]) -> dict[str, str]:
    """Return the chart's manifests that are not empty, by the name of their template."""
    with Chart.load_archive(_packed()) as chart:
        found = chart.render(dict(values), name="diag", namespace="monitoring")
    own = {path: text for path, text in sorted(found.items()) if HOOKS not in Path(path).parts}
    named = {Path(path).name: text.strip("\n") + "\n" for path, text in own.items()}
    return {name: text for name, text in named.items() if name.endswith(".yaml") and text.strip()}


def _packed() -> bytes:
    """Return the chart as an archive in which links are the files they lead to: Helm remarks on each link."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz", compresslevel=1, dereference=True) as packed:
        packed.add(CHART, arcname=CHART.name)
    return archive.getvalue()


def files() -> dict[Path, str]:
    """Return the text of each plain manifest by its path."""
    return {PLAIN / variant / name: text for variant in VARIANTS for name, text in _variant(variant)}


def _variant(variant: str) -> Iterator[tuple[str, str]]:
    manifests = {name: text for name, text in rendered(VARIANTS[variant]).items() if name not in ELSEWHERE}
    yield from ((name, _HEAD + text) for name, text in manifests.items())
    resources = [*manifests, *(f"../../../{folder}" for folder in ELSEWHERE.values())]
    listed = "".join(f"  - {one}\n" for one in resources)
    yield (
        "kustomization.yaml",
        f"{_HEAD}apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nnamespace: monitoring\n"
        f"resources:\n{listed}",
    )


def main() -> int:
    """Write what changed, or with `--check` list what is stale and return 1."""
    options = argparse.ArgumentParser(prog="python -m deploy", description="Write the plain Kubernetes manifests.")
    options.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a file is stale")
    return update(files(), FOLDER.parent, check=options.parse_args().check, present=PLAIN.glob("*/*.yaml"))


if __name__ == "__main__":
    sys.exit(main())
