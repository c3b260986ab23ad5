"""`python -m tests.benchmark.fifth --out FOLDER`: records the incidents, longest first."""

from __future__ import annotations

import sys

from tests.benchmark.again.__main__ import main
from tests.benchmark.fifth import drawn_all

if __name__ == "__main__":
    sys.exit(main("tests.benchmark.fifth", drawn_all()))
