"""Try hostile inputs of every door, and count what becomes of them.

    python studies/campaign.py --inputs 100000

A failure is printed with its input. The law is in ``tests/hostile.py``, the doors in ``doors.py``.
Writes ``studies/results/tables/campaign.csv``, and exits with 1 if anything failed.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
import traceback
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from hypothesis import HealthCheck, Phase, given, seed, settings

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from doors import DOORS, open_doors  # noqa: E402
from hostile import GIVEN, Given  # noqa: E402

_CHUNK = 500  # inputs of one search, so that hypothesis does not remember all of them
_MEMORY = 12 * 2**30  # bytes of addresses, beyond which an input fails
_HEADS = ("door", "inputs", "accepted", "refused", "ended by Ctrl-C", "failures", "slowest (s)")


class Door:
    """The inputs of one door, and what became of them."""

    def __init__(self, name: str, meet: Any) -> None:
        self.name, self._meet = name, meet
        self.found, self.slowest = Counter[str](), 0.0
        self.failures: dict[str, tuple[Given, str]] = {}

    def meet(self, hostile: Given) -> None:
        """Try one input."""
        start = time.process_time()
        try:
            self.found[self._meet(self.name, hostile)] += 1
        except (Exception, KeyboardInterrupt) as error:
            self.found["failures"] += 1
            lines = traceback.extract_tb(error.__traceback__)
            own = [line for line in lines if "/fcfg/" in line.filename] or lines
            place = f"{Path(own[-1].filename).name}:{own[-1].lineno} {type(error).__name__}"
            self.failures.setdefault(place, (hostile, ascii(str(error))[:300]))
        self.slowest = max(self.slowest, time.process_time() - start)

    def search(self, number: int, count: int) -> None:
        """Try some inputs, of which the number of the search decides."""
        meet = self.meet

        @seed(number)
        @settings(
            max_examples=count,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(GIVEN)
        def search(hostile: Given) -> None:
            meet(hostile)

        search()

    def row(self) -> list[str]:
        """Return a row of the table."""
        kinds = [self.found[kind] for kind in ("accepted", "refused", "stopped", "failures")]
        return [self.name, *(f"{n:,}" for n in (sum(kinds), *kinds)), f"{self.slowest:.1f}"]


def write(path: Path, new: list[str]) -> None:
    """Write the row of a door into the table, beside those of other doors, and the sums."""
    rows = {name: [name] for name in DOORS}
    if path.exists():
        with path.open(newline="", encoding="utf-8") as file:
            rows |= {row[0]: row for row in csv.reader(file) if row[0] in DOORS}
    found = [row for row in (rows | {new[0]: new}).values() if row[1:]]
    sums = [sum(int(row[k].replace(",", "")) for row in found) for k in range(1, 6)]
    slowest = max((row[6] for row in found), key=float)
    with path.open("w", newline="", encoding="utf-8") as file:
        every = ["all", *(f"{n:,}" for n in sums), slowest]
        csv.writer(file, lineterminator="\n").writerows([_HEADS, *found, every])


def main() -> int:
    """Try all inputs, print, and write the table; other doors than those asked for stay in it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--doors", default=",".join(DOORS))
    parser.add_argument("--out", type=Path, default=ROOT / "studies/results/tables/campaign.csv")
    options = parser.parse_args()
    torch.set_num_threads(1)
    try:
        import resource
    except ImportError:  # Windows
        pass
    else:
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, resource.RLIM_INFINITY))
    failed = 0
    with TemporaryDirectory() as folder, open_doors(Path(folder)) as meet:
        for name in options.doors.split(","):
            door, left = Door(name, meet), DOORS[name][1] * options.inputs // 100_000
            for number, begin in enumerate(range(0, left, _CHUNK)):
                door.search(number, min(_CHUNK, left - begin))
            write(options.out, door.row())
            failed += door.found["failures"]
            print(*door.row(), f"{time.process_time():.0f} s of CPU so far", flush=True)
            for place, (hostile, told) in door.failures.items():
                print("  ", place, told, hostile, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
