"""The settings of `diag serve`, as other verbs look them up: needs the extra `serve`."""

from __future__ import annotations

import os
from pathlib import Path

from diagnostics.settings.load import Loaded, load


def loaded_from(file: Path) -> Loaded:
    """Return the settings of the service, and where each comes from.

    Raises:
        UsageError: they cannot be used.

    """
    return load(file, os.environ, {})
