"""Turn result files of `fcfg evaluate` into one small table of estimates for the documentation.

    python studies/compact.py runs/core.jsonl.gz runs/apg.jsonl.gz --out studies/results/faces.csv

With ``--claims``, ``signs.csv`` and ``claims.csv`` say where these runs agree with the paper.

The table has one line for each run, intervention and guidance, and for each number three columns:
the value and its 95 % interval; "stays" names the attributes that should not change. Lines
without an intervention are of the null intervention and, with the guidance "real", of the
original images. ``runs.json`` beside it says how each run was made.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

from agreement import checks, signs
from fcfg.evaluation import read_results, summarise
from fcfg.evaluation.metric_table import METRICS
from fcfg.evaluation.summary import Cell, Summary
from fcfg.metrics import Estimate

Maker: TypeAlias = Callable[[str, Summary], Iterator[dict[str, str]]]
WORDS = {True: "yes", False: "no", None: ""}
#: What is kept of a run's header.
_KEPT = ("experiment", "title", "steps", "solver", "grid", "seed", "command", "commit")


def columns(name: str, value: Estimate | float | None) -> dict[str, str]:
    """Return a number's columns, in six digits: its value and, of an estimate, the interval.

    >>> from fcfg.metrics import Bootstrap, mean
    >>> columns("MAE", mean([0.25, 0.25], Bootstrap(2)))
    {'MAE': '0.25', 'MAE low': '0.25', 'MAE high': '0.25'}
    >>> columns("FID", 12.3456789)
    {'FID': '12.3457'}
    """
    if value is None:
        return {}
    if not isinstance(value, Estimate):
        return {name: f"{value:.6g}"}
    parts = {"": value.value, " low": value.low, " high": value.high}
    return {name + part: f"{number:.6g}" for part, number in parts.items()}


def lines(run: str, summary: Summary) -> Iterator[dict[str, str]]:
    """Yield the lines of a run."""
    for cell in summary.cells.values():
        stays = "+".join(cell.invariant) if cell.do else ""
        first = {"run": run, "do": cell.do, "guidance": cell.guidance, "stays": stays}
        yield first | _numbers(summary, cell)
    real = {"run": run, "do": "", "guidance": "real"}
    for (metric, attribute), estimate in summary.real.items():
        real |= columns(f"{metric} {attribute}", estimate)
    yield real


def _numbers(summary: Summary, cell: Cell) -> dict[str, str]:
    found: dict[str, str] = {}
    for metric in METRICS.values():
        for attribute in (*summary.space.names, ""):
            value = cell.numbers.get((metric.name, attribute))
            found |= columns(f"{metric.name} {attribute}".strip(), value)
    return found


def about(summary: Summary) -> dict[str, Any]:
    """Return how a run was made."""
    header = summary.header
    model = {name: header["model"].get(name) for name in ("name", "digest", "parameters")}
    data = {name: header["data"].get(name) for name in ("format", "split")}
    environment = {name: header["environment"][name] for name in ("device", "precision")}
    kept = {name: header.get(name) for name in _KEPT}
    return {"images": summary.n} | kept | {"model": model, "data": data} | environment


def claim_lines(run: str, summary: Summary) -> Iterator[dict[str, str]]:
    """Yield the claims on factored guidance, and whether they hold."""
    for check in checks(summary):
        yield {
            "run": run,
            "do": check.do,
            "factored": check.factored,
            "global": check.everywhere,
            "claim": check.claim,
            "attribute": check.attribute,
            "ours": check.ours,
            "holds": WORDS[check.holds],
            "in the paper": WORDS[check.paper],
        }


def sign_lines(run: str, summary: Summary) -> Iterator[dict[str, str]]:
    """Yield every difference that is in the paper, too, and whether it has the same sign."""
    for sign in signs(summary):
        yield {
            "run": run,
            "do": sign.do,
            "guidance": sign.guidance,
            "attribute": sign.attribute,
            **columns("delta", sign.ours),
            "paper": f"{sign.paper:g}",
            "same sign": WORDS[sign.agrees],
        }


def replaced(file: Path, new: list[dict[str, str]], runs: list[str]) -> list[dict[str, str]]:
    """Return the lines of a file, with those of some runs replaced."""
    old: list[dict[str, str]] = []
    if file.exists():
        with file.open(encoding="utf-8", newline="") as text:
            old = [line for line in csv.DictReader(text) if line["run"] not in runs]
    return [*old, *new]


def write(out: Path, every: list[dict[str, str]]) -> None:
    """Write lines as CSV; a column that no line has is left out, and fields may be empty."""
    heads = list(dict.fromkeys(name for line in every for name in line))
    with out.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, heads, lineterminator="\n")
        writer.writeheader()
        writer.writerows(every)


def main() -> None:
    """Write the table, and how its runs were made."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("runs", nargs="+", type=Path, help="result files, named after their runs")
    parser.add_argument("--out", required=True, type=Path, help="CSV file to write")
    parser.add_argument("--claims", action="store_true", help="compare with the paper, too")
    args = parser.parse_args()
    notes = args.out.parent / "runs.json"
    known = json.loads(notes.read_text("utf-8")) if notes.exists() else {}
    makers: dict[str, Maker] = {args.out.name: lines}
    makers |= {"claims.csv": claim_lines, "signs.csv": sign_lines} if args.claims else {}
    found: dict[str, list[dict[str, str]]] = {name: [] for name in makers}
    names = [path.name.split(".")[0] for path in args.runs]
    for run, path in zip(names, args.runs, strict=True):
        summary = summarise(read_results(path))
        known[run] = about(summary)
        for name, maker in makers.items():
            found[name] += maker(run, summary)
    for name, new in found.items():
        file = args.out.parent / name
        write(file, replaced(file, new, names))
    notes.write_text(json.dumps(dict(sorted(known.items())), indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
