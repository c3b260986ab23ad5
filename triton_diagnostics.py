"""What the console script calls: a name that no other distribution has, to say so where one has taken ours."""

from __future__ import annotations

import sys
from pathlib import Path

_OWN = "triton-diagnostics"
_PACKAGES = ("diagnostics", "exporters")
# As a file that cannot be read: the command cannot be run as it is installed.
_EXIT = 3
_INSTEAD = f"install {_OWN} in an environment of its own, as pipx and uvx do"


def main() -> int:
    """Run `diag` and return its exit code; 3 where another distribution's package stands in place of ours."""
    try:
        import exporters.sources  # noqa: F401 - found, or another's
        from diagnostics.cli.entry import main as run
    except ImportError:
        taken = _taken()
        if not taken:
            raise
        sys.stderr.write(f"diag: {taken}\n")
        return _EXIT
    return run()


def _taken() -> str:
    """Name what has our packages' names; empty where they are ours alone."""
    import importlib.util
    from importlib import metadata

    owners = metadata.packages_distributions()
    for package in _PACKAGES:
        found = importlib.util.find_spec(package)
        place = next(iter(found.submodule_search_locations or ()), found.origin) if found else None
        others = sorted(set(owners.get(package, ())) - {_OWN})
        if others:
            return f"the package {package} is of another distribution, {others[0]}: {_INSTEAD}"
        if place is not None and Path(str(place)).parent != Path(__file__).parent:
            return f"the package {package} is another one, at {place}: {_INSTEAD}"
    return ""


if __name__ == "__main__":
    sys.exit(main())
