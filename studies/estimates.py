"""Stored results under studies/results, as text for tables.

``NAME.csv`` holds estimates of runs, which ``compact.py`` wrote, or of a study; ``runs.json`` says
how each was made; ``tables/NAME.csv`` holds a table as a page shows it, and ``notes.json`` what
stands below it.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from fcfg.reports.rule_styles import setting
from fcfg.reports.wording import interval, number

RESULTS = Path(__file__).parent / "results"
UNTUNED = "not calibrated"


@dataclass(frozen=True)
class Line:
    """One line of a file of estimates; fields of numbers that were not measured are empty."""

    fields: dict[str, str]

    def __getitem__(self, name: str) -> str:
        return self.fields.get(name) or ""

    def value(self, name: str) -> float | None:
        """Return a number without its interval."""
        return float(self[name]) if self[name] else None

    def plain(self, name: str, digits: int, *, signed: bool = False) -> str:
        """Return a number as text, and a dash if there is none."""
        value = self.value(name)
        return "–" if value is None else number(value, digits, signed=signed)

    def shown(self, name: str, digits: int, *, signed: bool = False) -> str:
        """Return a number and half the width of its interval.

        >>> Line({"MAE": "0.031", "MAE low": "0.030", "MAE high": "0.032"}).shown("MAE", 3)
        '0.031 ± 0.001'
        >>> Line({"AUROC": "100", "AUROC low": "98.6", "AUROC high": "100"}).shown("AUROC", 1)
        '100.0 [98.6, 100.0]'
        """
        text = self.plain(name, digits, signed=signed)
        if not self[f"{name} low"]:
            return text
        low, high = (float(self[f"{name} {end}"]) for end in ("low", "high"))
        if low < high and self.value(name) in (low, high):  # at the ceiling
            return f"{text} {interval(low, high, digits, signed=signed)}"
        half = (high - low) / 2
        return f"{text} ± {number(half, digits)}"

    def largest(self, prefix: str) -> str:
        """Return the name of the largest number of the attributes that should stay."""
        names = [f"{prefix} {name}" for name in self["stays"].split("+") if name]
        known = [name for name in names if self[name]]
        return max(known, key=lambda name: abs(float(self[name])), default="")

    @property
    def label(self) -> str:
        """Name of its guidance; factored guidance says that its weights are not calibrated.

        >>> Line({"guidance": "fcfg:affected=3.0,invariant=1.2"}).label
        'FCFG 3.0 / 1.2, not calibrated'
        """
        label = setting(self["guidance"]).label
        return f"{label}, {UNTUNED}" if self["guidance"].startswith("fcfg:") else label


@cache
def read(name: str) -> tuple[Line, ...]:
    """Return the lines of studies/results/NAME.csv."""
    with (RESULTS / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return tuple(map(Line, csv.DictReader(file)))


@cache
def run(file: str, name: str) -> dict[tuple[str, str], Line]:
    """Return the lines of a run by intervention and guidance, in order."""
    own = [line for line in read(file) if line["run"] == name]
    return {(line["do"], line["guidance"]): line for line in own}


@cache
def stored(name: str) -> dict[str, Any]:
    """Return studies/results/NAME.json: 'runs' or 'notes'."""
    return json.loads((RESULTS / f"{name}.json").read_text("utf-8"))


def dos(lines: Iterable[tuple[str, str]]) -> list[str]:
    """Return the interventions of a run, in order."""
    return [do for do in dict.fromkeys(do for do, _ in lines) if do]


def kept(name: str, columns: Sequence[int] = (), like: str = "") -> str:
    """Return the table studies/results/tables/NAME.csv, or NAME-1.csv and so on, and its note.

    Args:
        name: Name of the table.
        columns: Numbers of the columns that are shown; all by default.
        like: Text of the rows that are shown; all by default.
    """
    folder = RESULTS / "tables"
    parts = sorted(folder.glob(f"{name}-[0-9].csv")) or [folder / f"{name}.csv"]
    texts = [_kept(part, columns, like) for part in parts]
    note = stored("notes").get(name, "")
    if "python tools/" in note:
        note += " The script is in the history of the repository."
    return "\n\n".join([*texts, note])


def kept_rows(name: str) -> list[dict[str, str]]:
    """Return the rows of the table studies/results/tables/NAME.csv, by column."""
    with (RESULTS / "tables" / f"{name}.csv").open(encoding="utf-8", newline="") as text:
        return list(csv.DictReader(text))


def _kept(file: Path, columns: Sequence[int], like: str) -> str:
    with file.open(encoding="utf-8", newline="") as text:
        heads, *rows = csv.reader(text)
    rows = [row for row in rows if like in " ".join(row)]
    picked = [[line[i] for i in columns or range(len(heads))] for line in (heads, *rows)]
    return table(picked[0], picked[1:])


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of texts as Markdown."""
    escaped = [[text.replace("|", r"\|") for text in row] for row in (heads, *rows)]
    head, *lines = [f"| {' | '.join(row)} |" for row in escaped]
    return "\n".join([head, "|" + "---|" * len(heads), *lines])


def source(file: str, *names: str) -> str:
    """Return where the numbers of a table are from, and how the first of its runs was made.

    Args:
        file: Name of the file under studies/results.
        *names: Names of the runs.
    """
    about = [stored("runs")[name] for name in names]
    how = "; ".join(
        f"`{name}`: {one['images']:,} images, {one['steps']} steps, {one['grid']}"
        for name, one in zip(names, about, strict=True)
    )
    return f"From [{file}.csv](../studies/results/{file}.csv), with intervals ({how})."
