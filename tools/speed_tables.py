"""Tables of speed, for docs/speed.md: results of ``fcfg bench`` and of studies."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fcfg.bench import heading, read_record, tables
from fcfg.reports.tables import table_row
from sampling_cost import cost_table
from training_speed import training_table

RESULTS = Path(__file__).parents[1] / "docs" / "results"


def bench(name: str, folder: Path = RESULTS) -> str:
    """Return all tables of docs/results/bench-NAME.csv."""
    record = read_record(folder / f"bench-{name}.csv")
    found = tables(record)
    found += [training_table(record)] if record.of("training") else []
    found += [cost_table(record)] if record.of("exponent") else []
    parts = []
    for table in found:
        rows = _table([table.columns, *table.rows], numbers=True)
        notes = "".join(f"\n{note[:1].upper()}{note[1:]}.\n" for note in table.notes)
        parts.append(f"*{table.title}*\n\n{rows}{notes}")
    facts = record.facts
    source = f"{heading(record)}. `{facts['command']}`, commit {facts['commit'][:12]}."
    return "\n".join([*parts, source])


def execution(folder: Path = RESULTS) -> str:
    """Return the table of tools/execution_rates.py."""
    result = _read(folder / "execution-cpu.json")
    rates: dict[str, dict[str, float]] = result["rows_per_second"]
    ways = list(next(iter(rates.values())))
    lines = [["rows per second, by batch size", *rates]]
    lines += [
        [way, *(_rate(found[way], found[ways[0]]) for found in rates.values())] for way in ways
    ]
    return (
        _table(lines)
        + f"\n`{result['model']}` on {result['device']}, {result['threads']} thread(s), torch "
        + f"{result['torch']}; in brackets, relative to the first line. Measured by "
        + f"`python tools/execution_rates.py --ways {' '.join(map(repr, ways))} --rows "
        + f"{' '.join(rates)} --threads {result['threads']}`.\n"
    )


def recorded_steps(name: str, folder: Path = RESULTS) -> str:
    """Return the table of tools/recorded_steps.py for a model."""
    result = _read(folder / f"recorded-steps-{name}.json")
    ways = list(result["rows"][0]["seconds"])  # kernel by kernel first, the step at once last
    lines = [["images", "", *(f"{way}, seconds" for way in ways), "speed-up", "additional memory"]]
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
    """Return the table of tools/precision.py."""
    file = folder / "precision-celeba.json"
    if not file.exists():
        return "This has not been measured yet. Run `tools/precision.py`."
    result = _read(file)
    lines = [["precision", "sampling", "mean difference", "largest", "reversal error"]]
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
    """Format Markdown; the first line is the head, and numbers are aligned right."""
    head, *rows = [list(line) for line in lines]
    rule = ["---", *["---:" if numbers else "---"] * (len(head) - 1)]
    return "".join(f"{table_row(line)}\n" for line in (head, rule, *rows))


def _read(file: Path) -> dict[str, Any]:
    return json.loads(file.read_text("utf-8"))
