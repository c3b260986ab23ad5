from __future__ import annotations

import sys
from pathlib import Path

# The recorded server of the collector's tests serves these too.
sys.path.append(str(Path(__file__).parents[1] / "collect"))
