"""The parts of docs/speed.md: what ``fcfg bench`` and the scripts of tools/ measured.

``tools/pages.py`` puts them into the page. Each is a function of a file under docs/results.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fcfg.bench import heading, read_record, tables
from fcfg.reports.tables import table_row

RESULTS = Path(__file__).parents[1] / "docs" / "results"


def bench(name: str, folder: Path = RESULTS) -> str:
    """Every table of docs/results/bench-NAME.csv, which ``fcfg bench --out`` wrote."""
    record = read_record(folder / f"bench-{name}.csv")
    parts = []
    for found in tables(record):
        rows = _table([found.columns, *found.rows], numbers=True)
        notes = "".join(f"\n{note[:1].upper()}{note[1:]}.\n" for note in found.notes)
        parts.append(f"*{found.title}*\n\n{rows}{notes}")
    facts = record.facts
    told = f"{heading(record)}. `{facts['command']}`, commit {facts['commit'][:12]}."
    return "\n".join([*parts, told])


def execution(folder: Path = RESULTS) -> str:
    """What tools/execution_rates.py wrote."""
    result = _read(folder / "execution-cpu.json")
    rates: dict[str, dict[str, float]] = result["rows_per_second"]
    ways = list(next(iter(rates.values())))
    lines = [["rows a second, at once", *rates]]
    lines += [
        [way, *(_rate(found[way], found[ways[0]]) for found in rates.values())] for way in ways
    ]
    return (
        _table(lines)
        + f"\n`{result['model']}` on {result['device']}, {result['threads']} thread(s), torch "
        + f"{result['torch']}; in brackets, times the first line. Made by "
        + f"`python tools/execution_rates.py --ways {' '.join(map(repr, ways))} --rows "
        + f"{' '.join(rates)} --threads {result['threads']}`.\n"
    )


def recorded_steps(name: str, folder: Path = RESULTS) -> str:
    """What tools/recorded_steps.py wrote of a model."""
    result = _read(folder / f"recorded-steps-{name}.json")
    ways = list(result["rows"][0]["seconds"])  # kernel by kernel first, the step at once last
    lines = [["images", "", *(f"{way}, seconds" for way in ways), "speed-up", "memory kept, more"]]
    for row in result["rows"]:
        plain, *_, step = found = [row["seconds"][way] for way in ways]
        kept = round((row["memory"][ways[-1]] - row["memory"][ways[0]]) / 2**30, 1)
        lines.append(
            [
                str(row["images"]),
                row["precision"] + (", compiled" if row["compiled"] else ""),
                *(f"{seconds:.3f}" for seconds in found),
                f"{plain / step:.2f}×",
                f"{kept + 0.0:.1f} GiB",
            ]
        )
    return f"{_table(lines, numbers=True)}\n{result['model']}: {_about(result)}\n"


def precision(folder: Path = RESULTS) -> str:
    """What tools/precision.py wrote."""
    file = folder / "precision-celeba.json"
    if not file.exists():
        return "It has not been measured yet: `tools/precision.py` does."
    result = _read(file)
    lines = [["precision", "way", "mean difference", "largest", "way back"]]
    lines += [
        [
            row["precision"],
            row["way"],
            f"{row['mean']:.5f}",
            f"{row['largest']:.3f}",
            f"{row['reversal']:.4f}",
        ]
        for row in result["rows"]
    ]
    count = result["rows"][0]["images"]
    return (
        f"{_table(lines)}\n{count} images, do({result['do']}), FCFG 3.0 / 1.2, in units of "
        f"[-1, 1]. {_about(result)}\n"
    )


def _about(result: dict[str, Any]) -> str:
    environment = result["environment"]
    return (
        f"`{result['command']}`, {environment['device']}, torch {environment['torch']}, commit "
        f"{(result['commit'] or '?')[:12]}."
    )


def _rate(rate: float, reference: float) -> str:
    return f"{rate:.1f} ({rate / reference:.2f})"


def _table(lines: Iterable[Iterable[str]], *, numbers: bool = False) -> str:
    """The first line is the head; numbers stand right of the first column."""
    head, *rows = [list(line) for line in lines]
    rule = ["---", *["---:" if numbers else "---"] * (len(head) - 1)]
    return "".join(f"{table_row(line)}\n" for line in (head, rule, *rows))


def _read(file: Path) -> dict[str, Any]:
    return json.loads(file.read_text("utf-8"))
