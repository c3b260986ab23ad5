"""What the console script calls: Ctrl-C while the rest is still being imported ends quietly, too."""

from __future__ import annotations

from diagnostics.errors import EXIT_INTERRUPTED


def main() -> int:
    """Run `diag` and return its exit code."""
    try:
        from diagnostics.cli.process_title import hide_secrets

        hide_secrets()
        from diagnostics.cli.main import main as run
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    return run()
