"""The tables of a run: CSV for programs, LaTeX for papers, Markdown for documentation."""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TypeAlias

from fcfg.evaluation.metric_table import METRICS, effectiveness
from fcfg.evaluation.result_files import identity
from fcfg.evaluation.summary import Summary
from fcfg.metrics import Estimate
from fcfg.reports.numbers import number
from fcfg.reports.paper import dataset_of, match
from fcfg.reports.rule_styles import setting, settings_of
from fcfg.reports.wording import measured_with
from fcfg.support.errors import check_among
from fcfg.support.outputs import Outputs

Key: TypeAlias = tuple[str, str, str, str]  # intervention, guidance, metric, attribute
_ESCAPES = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "Δ": r"$\Delta$",
    "ω": r"$\omega$",
    "×": r"$\times$",
    **{character: "\\" + character for character in "&%$#_"},
}
_GROUPS = {"affected": r"\mathrm{aff}", "invariant": r"\mathrm{inv}"}


@dataclass(frozen=True)
class Entry:
    """One number of a run: a line of the CSV file."""

    do: str  #: "" is the null intervention
    guidance: str
    metric: str  #: a name in METRICS
    attribute: str  #: "" for whole images
    value: float
    low: float | None  #: of the 95 % interval, if there is one
    high: float | None
    n: int
    unit: str
    paper: float | None  #: the paper's number for the same setting
    note: str  #: what is inconsistent in the paper's row

    def text(self, value: float | None = None) -> str:
        """A value with the digits of the metric, its own by default."""
        metric = METRICS[self.metric].in_unit(self.unit)
        shown = self.value if value is None else value
        return number(shown, metric.digits, signed=metric.signed, ascii_only=True)

    @property
    def margin(self) -> str:
        """Half the width of the interval; "" if there is none."""
        if self.low is None or self.high is None or self.low == self.high:
            return ""
        return self.text((self.high - self.low) / 2).lstrip("+")


def entries(summary: Summary) -> dict[Key, Entry]:
    """All numbers of a run, the null intervention first, then in the order of the run."""
    every: dict[Key, Entry] = {}
    for cell in (*summary.compositions.values(), *summary.cells.values()):
        row = match(dataset_of(summary.header), cell.do, cell.guidance) if cell.do else None
        for name in (*summary.space.names, ""):
            for metric in METRICS.values():
                value = metric.value(summary, cell, name)
                if value is None:
                    continue
                theirs = getattr(row, metric.paper) if row and metric.paper else None
                key = (cell.do, cell.guidance, metric.name, name)
                is_estimate = isinstance(value, Estimate)
                every[key] = Entry(
                    *key,
                    value=value.value if is_estimate else value,
                    low=value.low if is_estimate else None,
                    high=value.high if is_estimate else None,
                    n=cell.n,
                    unit=metric.unit_of(summary, name) or "",
                    paper=theirs.get(name) if isinstance(theirs, Mapping) else theirs,
                    note=row.note or "" if row else "",
                )
    return every


def write_tables(
    summary: Summary, folder: str | os.PathLike[str], *, overwrite: bool = False
) -> list[Path]:
    """Write ``table.csv`` and ``table.tex``, and return their paths.

    Args:
        summary: Summary of a run.
        folder: Folder to write to; created if it is missing.
        overwrite: Whether to replace files that are not the tables of this run.
    """
    return report_outputs(summary, Path(folder), overwrite=overwrite).write(table_files(summary))


def report_outputs(summary: Summary, folder: Path, *, overwrite: bool) -> Outputs:
    """The files that a report of a run may write to a folder."""
    return Outputs(folder, "report", identity(summary.header), overwrite)


def table_files(summary: Summary) -> dict[str, bytes]:
    """Contents of the tables by file name."""
    return {
        "table.csv": csv_table(summary).encode(),
        "table.tex": latex_table(summary).encode(),
    }


def csv_table(summary: Summary) -> str:
    """One line for each number; :class:`Entry` names the columns.

    Numbers are written in full. Fields without an interval or a number of the paper are empty.
    """
    text = io.StringIO()
    writer = csv.DictWriter(text, [field.name for field in fields(Entry)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(entry) for entry in entries(summary).values())
    return text.getvalue()


def heading(summary: Summary, metrics: Sequence[str], attribute: str) -> str:
    """Titles of metrics in an attribute's column; a shift with its unit, which differs."""
    shift = METRICS["shift"].unit_of(summary, attribute)
    return " / ".join(
        METRICS[name].title + (f", {shift}" if name == "shift" else "") for name in metrics
    )


def markdown_table(
    summary: Summary,
    *,
    attributes: Sequence[str] = ("auroc", "delta"),
    images: Sequence[str] = ("reversal_mae", "reversal_lpips", "minimality"),
    dos: Sequence[str] | None = None,
    guidance: Sequence[str] | None = None,
    paper: bool = True,
) -> str:
    """One row for each intervention and guidance, one column for each attribute.

    Half the width of the 95 % interval follows each number. The paper's numbers stand below ours,
    in italics. Columns that would be empty are left out.

    Args:
        summary: Summary of a run.
        attributes: Metrics that share an attribute's column; "auroc" stands for the error of a
            continuous attribute.
        images: Metrics of whole images, with a column each.
        dos: Interventions to show; all by default.
        guidance: Settings to show; all by default.
        paper: Whether to show the paper's numbers.
    """
    for metric in (*attributes, *images):
        check_among("metric", metric, METRICS)
    for do in dos or ():
        check_among("intervention", do, summary.dos)
    for text in guidance or ():
        check_among("guidance", text, summary.settings)
    every = entries(summary)
    columns: dict[str, list[tuple[str, str]]] = {}
    for name in summary.space.names:
        own = effectiveness(summary, name).name
        metrics = [own if metric == "auroc" else metric for metric in attributes]
        measured = [m for m in metrics if any(key[2:] == (m, name) for key in every)]
        if measured:
            title = f"{name}: {heading(summary, measured, name)}"
            columns[title] = [(metric, name) for metric in measured]
    for metric in images:
        if any(key[0] and key[2] == metric for key in every):
            columns[METRICS[metric].title] = [(metric, "")]
    rows = [["do", "guidance", *columns], ["---"] * (2 + len(columns))]
    for do in (do for do in summary.dos if do in (dos or summary.dos)):
        shown = [c for c in summary.cells_of(do) if c.guidance in (guidance or summary.settings)]
        for own in settings_of([(cell, summary.header) for cell in shown]):
            cells = [
                [every.get((do, own.text, *key)) for key in keys] for keys in columns.values()
            ]
            ours = [_joined(cell, "–", " ± {}") for cell in cells]
            theirs = [_joined_paper(cell, "–") if paper else "" for cell in cells]
            both = [f"{x}<br>*{y}*" if y else x for x, y in zip(ours, theirs, strict=True)]
            rows.append([do.replace("+", ", "), own.label, *both])
    return "\n".join([*map(table_row, rows), "", measured_with(summary)]) + "\n"


def table_row(cells: Iterable[str]) -> str:
    r"""One line of a Markdown table.

    >>> table_row(["do", "a|b"])
    '| do | a\\|b |'
    """
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"


def _joined(cell: Sequence[Entry | None], missing: str, margin: str) -> str:
    """Our numbers in one column, each with its margin."""
    return " / ".join(
        missing if e is None else e.text() + (margin.format(e.margin) if e.margin else "")
        for e in cell
    )


def _joined_paper(cell: Sequence[Entry | None], missing: str) -> str:
    """The paper's numbers in one column; "" if it has none."""
    texts = [missing if e is None or e.paper is None else e.text(e.paper) for e in cell]
    return "" if set(texts) == {missing} else " / ".join(texts)


def latex_table(summary: Summary) -> str:
    r"""A table in the paper's layout, with the paper's numbers in grey below ours.

    The text is a ``tabular`` to ``\input`` into a document that uses booktabs and xcolor. In a run
    of too few images for effectiveness, the columns of attributes hold the shift.
    """
    every, names = entries(summary), summary.space.names
    columns: list[list[tuple[str, str]]] = []
    heads = ["do(key)", "Guidance", "Configuration"]
    for name in names:
        own = effectiveness(summary, name).name
        is_measured = any(key[2:] == (own, name) for key in every)
        metrics = [own, "delta"] if is_measured else ["shift"]
        heads.append(escaped(f"{name} {heading(summary, metrics, name)}"))
        columns.append([(metric, name) for metric in metrics])
    for metric in ("reversal_mae", "reversal_lpips"):
        heads.append(METRICS[metric].title)
        columns.append([(metric, "")])
    lines = [rf"\begin{{tabular}}{{lll{'c' * len(names)}|cc}}", r"\toprule", latex_row(heads)]
    for do in summary.dos:
        lines.append(r"\midrule")
        title, family = f"do({escaped(do.replace('+', ', '))})", ""
        for chosen in settings_of([(cell, summary.header) for cell in summary.cells_of(do)]):
            text = chosen.text
            cells = [[every.get((do, text, *key)) for key in keys] for keys in columns]
            label = "" if chosen.family == family else escaped(chosen.family_name)
            ours = [latex_minus(_joined(cell, "--", r"{{\tiny$\,\pm\,${}}}")) for cell in cells]
            weights = ", ".join(filter(None, (configuration(text), chosen.note)))
            lines.append(latex_row([title, label, weights, *ours]))
            title, family = "", chosen.family
            theirs = [latex_minus(_joined_paper(cell, "--")) for cell in cells]
            if any(theirs):
                lines.append(latex_row(["", "", *map(_grey, ["the paper", *theirs])]))
    about = rf"\tiny {escaped(measured_with(summary))}"
    lines += [
        r"\bottomrule",
        latex_row([rf"\multicolumn{{{len(heads)}}}{{l}}{{{about}}}"]),
        r"\end{tabular}",
    ]
    return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    r"""Text that LaTeX prints as it is.

    >>> print(escaped("100 % of lung_mass"))
    100 \% of lung\_mass
    """
    return "".join(_ESCAPES.get(character, character) for character in text)


def configuration(text: str) -> str:
    r"""The weights of a guidance, in the paper's letters.

    >>> print(configuration("fcfg:affected=3,invariant=1.2"))
    $\omega_{\mathrm{aff}}=3.0$, $\omega_{\mathrm{inv}}=1.2$
    >>> print(configuration("cfg++:0.02"), configuration("none"))
    $\lambda=0.02$ $\omega=1.0$
    """
    chosen = setting(text)
    parts = [
        f"${chosen.style.letter}{_subscript(name) if chosen.factored else ''}={weight}$"
        for name, weight in chosen.weights or (("all", 1.0),)
    ]
    return ", ".join([*parts, *([escaped(chosen.options)] if chosen.options else [])])


def _subscript(name: str) -> str:
    return "_{" + _GROUPS.get(name, rf"\textrm{{\tiny {escaped(name)}}}") + "}"


def latex_minus(text: str) -> str:
    """Numbers with a true minus sign.

    >>> latex_minus("-0.5 +1")
    '$-$0.5 +1'
    """
    return re.sub(r"-(?=\d)", "$-$", text)


def _grey(text: str) -> str:
    return rf"\textcolor{{gray}}{{{text}}}" if text else ""


def latex_row(cells: Iterable[str]) -> str:
    """One line of a LaTeX table."""
    return " & ".join(cells) + r" \\"
