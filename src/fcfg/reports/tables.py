"""The tables of a run as files: CSV for programs, LaTeX for papers."""

from __future__ import annotations

import csv
import io
import os
from dataclasses import asdict, fields
from pathlib import Path

from fcfg.experiments.summary import Summary
from fcfg.files import write_atomically
from fcfg.reports.entries import Entry, entries
from fcfg.reports.latex import latex_table
from fcfg.reports.markdown import markdown_table

__all__ = ["csv_table", "latex_table", "markdown_table", "write_tables"]


def write_tables(summary: Summary, folder: str | os.PathLike[str]) -> list[Path]:
    """Write ``table.csv`` and ``table.tex``; returns where they are.

    Args:
        summary: Of a run.
        folder: Made where it is missing.
    """
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    texts = {"table.csv": csv_table(summary), "table.tex": latex_table(summary)}
    for name, text in texts.items():
        write_atomically(place / name, text.encode())
    return [place / name for name in texts]


def csv_table(summary: Summary) -> str:
    """One line for each number: :class:`fcfg.reports.entries.Entry` names the columns.

    Numbers are written in full; where there is no interval, or no number of the paper, the field
    is empty.
    """
    text = io.StringIO()
    writer = csv.DictWriter(text, [field.name for field in fields(Entry)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(entry) for entry in entries(summary).values())
    return text.getvalue()
