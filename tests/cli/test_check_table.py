from __future__ import annotations

from diagnostics.checks.catalogue import catalogue
from diagnostics.checks.check import Layer
from diagnostics.cli import checks
from diagnostics.cli.checks import rows


def test_the_table_says_what_the_checks_themselves_say() -> None:
    table = {(row.id, row.layer, row.title) for row in rows()}

    assert table == {(found.id, found.check.layer.value, found.title) for found in catalogue().values()}


def test_the_table_knows_every_layer() -> None:
    assert tuple(layer.value for layer in Layer) == checks._LAYERS
