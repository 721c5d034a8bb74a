"""The tables of a run as files: CSV for programs, LaTeX for papers."""

from __future__ import annotations

import csv
import io
import os
from dataclasses import asdict, fields
from pathlib import Path

from fcfg.evaluation.result_files import identity
from fcfg.evaluation.summary import Summary
from fcfg.reports.latex import latex_table
from fcfg.reports.markdown import markdown_table
from fcfg.reports.metric_values import Entry, entries
from fcfg.support.outputs import Outputs

__all__ = ["csv_table", "latex_table", "markdown_table", "table_files", "write_tables"]


def write_tables(
    summary: Summary, folder: str | os.PathLike[str], *, overwrite: bool = False
) -> list[Path]:
    """Write ``table.csv`` and ``table.tex``; returns where they are.

    Args:
        summary: Summary of a run.
        folder: Folder to write to; it is made where it is missing.
        overwrite: Permission to replace files that are not the tables of this run.
    """
    return report_outputs(summary, Path(folder), overwrite=overwrite).write(table_files(summary))


def report_outputs(summary: Summary, folder: Path, *, overwrite: bool) -> Outputs:
    """What the report of a run may write to a folder."""
    return Outputs(folder, "report", identity(summary.header), overwrite)


def table_files(summary: Summary) -> dict[str, bytes]:
    """The tables of a run as the contents of files, by name."""
    return {
        "table.csv": csv_table(summary).encode(),
        "table.tex": latex_table(summary).encode(),
    }


def csv_table(summary: Summary) -> str:
    """One line for each number: :class:`fcfg.reports.metric_values.Entry` names the columns.

    Numbers are written in full; where there is no interval, or no number of the paper, the field
    is empty.
    """
    text = io.StringIO()
    writer = csv.DictWriter(text, [field.name for field in fields(Entry)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(entry) for entry in entries(summary).values())
    return text.getvalue()
