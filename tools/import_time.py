"""How long the package takes to import, beyond torch itself.

    python tools/import_time.py [--runs 7]

Each statement runs in fresh interpreters, taking turns; medians are reported.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time

STATEMENTS = {
    "import torch (reference)": "import torch",
    "import torch, fcfg": "import torch, fcfg",
    "import torch, then every public name of fcfg": (
        "import torch, fcfg; [getattr(fcfg, name) for name in fcfg.__all__]"
    ),
}


def seconds(statement: str) -> float:
    """Wall-clock time of a fresh interpreter."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", statement], check=True)
    return time.perf_counter() - start


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=7, help="interpreters for each statement")
    runs = parser.parse_args().runs
    times: dict[str, list[float]] = {name: [] for name in STATEMENTS}
    for _ in range(runs):
        for name, statement in STATEMENTS.items():
            times[name].append(seconds(statement))
    reference = statistics.median(times["import torch (reference)"])
    for name, values in times.items():
        median = statistics.median(values)
        print(
            f"{name:46} {median:6.2f} s  {median - reference:+6.2f} s  {median / reference:5.2f}x"
        )


if __name__ == "__main__":
    main()
