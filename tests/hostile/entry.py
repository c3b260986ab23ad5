"""`diag` as its console script starts it, for tests that look at its process."""

from __future__ import annotations

import sys

from diagnostics.cli.entry import main

if __name__ == "__main__":
    sys.exit(main())
