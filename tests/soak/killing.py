"""Kills a running `diag serve` again and again, at random moments, and looks at what is left.

python -m tests.soak.killing [--times 100]
"""

from __future__ import annotations

import argparse
import random
import sqlite3
import sys
import tempfile
import time
from pathlib import Path

from tests.collect.fake_triton import free_ports
from tests.soak import fleet
from tests.soak.load import running_fleet
from tests.soak.running import Serving, serving, until

INTERVAL = 1.0


def killed_again_and_again(folder: Path, times: int, seed: int = 1) -> None:
    """Start and kill a service so many times; its incident stays the same, and no more than a round is lost."""
    port, draw = free_ports(1), random.Random(seed)
    settings = folder / "diag.toml"
    settings.write_text(
        f'[web]\nlisten_address = "127.0.0.1:{port}"\n[collect]\ninterval = "{INTERVAL}s"\nwindow = "30s"\n'
        f'[history]\ndirectory = "{folder}/data"\n[[server]]\nurl = "http://{fleet.address(0)}:{fleet.API}"\n'
    )
    with serving(settings, port) as service:
        until(lambda: incidents(service), 30, "an incident")
        first = incidents(service)
        service.kill()
    for _ in range(times):
        with serving(settings, port) as service:
            assert first <= incidents(service) or until_same(service, first)
            time.sleep(draw.uniform(0.0, 2.5))
            service.kill()
        check_database(folder / "data" / "history.db")
    with serving(settings, port) as service:
        until(lambda: first <= incidents(service), 10, "the same incident")
        assert service.end() == 0


def incidents(service: Serving) -> set[str]:
    return {one["id"] for one in service.json("/api/v1/incidents?state=open")}


def until_same(service: Serving, first: set[str]) -> bool:
    until(lambda: first <= incidents(service), 5, "the same incident")
    return True


def check_database(file: Path) -> None:
    with sqlite3.connect(file) as database:
        assert database.execute("pragma integrity_check").fetchall() == [("ok",)]
        twice = "select fingerprint, count(*) from incidents where closed is null group by 1 having count(*) > 1"
        assert database.execute(twice).fetchall() == [], "an incident lasts twice"
    database.close()


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--times", type=int, default=100)
    asked = options.parse_args()
    with tempfile.TemporaryDirectory() as folder, running_fleet(1, 2_000):
        killed_again_and_again(Path(folder), asked.times)
    print(f"killed {asked.times} times: the database opens and incidents keep their identity")
    return 0


if __name__ == "__main__":
    sys.exit(main())
