"""Tables of numbers, each written in the same way as LaTeX, CSV, HTML or on a terminal.

A :class:`Table` is data: rows with names, columns with units and digits, and numbers with their
intervals. The template ``macros.html.jinja`` writes it as HTML, :mod:`fcfg.cli.tables` on a
terminal, and the methods here as text.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Self, TypeAlias

from fcfg.evaluation.metric_table import Better
from fcfg.metrics import Estimate
from fcfg.reports.rule_styles import Setting
from fcfg.reports.wording import interval, number

_LATEX_LETTERS = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "Δ": r"$\Delta$",
    "ω": r"$\omega$",
    "λ": r"$\lambda$",
    "×": r"$\times$",
    "±": r"$\pm$",
    "−": "$-$",
    "–": "--",
    "→": r"$\to$",
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
    **{character: "\\" + character for character in "&%$#_"},
}
_MISSING = "--"  # in LaTeX
_FIELDS = ("metric", "attribute", "value", "low", "high", "n", "unit", "best", "note")


Cell: TypeAlias = Estimate | float | str | None  #: a number, words, or nothing


@dataclass(frozen=True)
class Column:
    """One kind of number, and how it is written."""

    title: str
    unit: str = ""
    digits: int | None = 2  #: decimal places; None for three significant digits
    signed: bool = False
    better: Better = ""
    group: str = ""  #: heading above neighbouring columns
    metric: str = ""  #: name in CSV files; the title by default
    role: str = ""  #: of the attribute, such as target
    is_small: bool = False  #: whether it stands in small print below the column before it
    names: tuple[str, ...] = ("",)  #: attributes whose mean it is; "" is a whole image

    @property
    def attribute(self) -> str:
        """The only attribute that it is measured of; "" for several and for whole images."""
        return self.names[0] if len(self.names) == 1 else ""

    @property
    def heading(self) -> str:
        """Its title and an arrow."""
        return f"{self.title} {self.better}".strip()

    def text(self, cell: Estimate | float | str) -> str:
        """A number with the digits of the column; words as they are."""
        if isinstance(cell, str):
            return cell
        value = cell.value if isinstance(cell, Estimate) else cell
        if self.digits is None:
            return f"{value:.3g}"
        return number(value, self.digits, signed=self.signed)

    def interval(self, cell: Cell) -> str:
        """The interval in brackets; "" if there is none."""
        if not isinstance(cell, Estimate) or self.digits is None:
            return ""
        return interval(cell.low, cell.high, self.digits, signed=self.signed)

    def margin(self, cell: Cell) -> str:
        """Half the width of the interval behind a sign; "" if there is none.

        The interval itself at the ceiling, where the number is at its end.
        """
        if not isinstance(cell, Estimate) or cell.low == cell.high:
            return ""
        if any(cell.beyond):
            return self.interval(cell)
        return "±" + replace(self, signed=False).text((cell.high - cell.low) / 2)


@dataclass(frozen=True)
class Row:
    """One line of a table."""

    names: tuple[str, ...]  #: one for each of the table's
    cells: tuple[Cell, ...]  #: one for each column
    setting: Setting | None = None  #: whose mark and colour the name has
    best: frozenset[Column] = frozenset()  #: where it is bold: the best, or a clear difference
    note: str = ""  #: a doubt about its numbers
    is_pale: bool = False  #: whether it is no result of the run, such as a number of the paper


@dataclass(frozen=True)
class Table:
    """Rows of numbers, or of words."""

    names: tuple[str, ...]  #: headings of the names of rows
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    title: str = ""
    notes: tuple[str, ...] = ()

    def only(self, groups: Collection[str]) -> Self:
        """The same table with the columns of some groups, and the rows that have them."""
        kept = [k for k, column in enumerate(self.columns) if column.group in groups]
        rows = [replace(row, cells=tuple(row.cells[k] for k in kept)) for row in self.rows]
        columns = tuple(self.columns[k] for k in kept)
        having = (row for row in rows if any(cell is not None for cell in row.cells))
        return replace(self, columns=columns, rows=tuple(having))

    @property
    def places(self) -> list[tuple[int, ...]]:
        """Numbers of the columns that share a place: a column, and those in small print below."""
        found: list[tuple[int, ...]] = []
        for k, column in enumerate(self.columns):
            if column.is_small and found:
                found[-1] = (*found[-1], k)
            else:
                found.append((k,))
        return found

    @property
    def groups(self) -> list[tuple[str, int]]:
        """Headings above columns, each with the number of places below it."""
        titles = [self.columns[first].group for first, *_ in self.places]
        return [(title, len(list(same))) for title, same in groupby(titles)]

    def csv(self) -> str:
        """One line for each number, in full; a field that has nothing to say is empty."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([*self.names, *_FIELDS])
        for row in self.rows:
            for column, cell in zip(self.columns, row.cells, strict=True):
                about = (*row.names, column.metric or column.title, column.attribute)
                whole: list[object] = [cell, "", "", ""]
                if isinstance(cell, Estimate):
                    whole = [cell.value, cell.low, cell.high, cell.n]
                if cell is not None:
                    best = "best" if column in row.best else ""
                    writer.writerow([*about, *whole, column.unit, best, row.note])
        return text.getvalue()

    def latex(self) -> str:
        r"""A ``tabular`` to ``\input`` into a document that uses booktabs and xcolor."""
        heads, *rows = self._latex_texts()
        layout = "l" * len(self.names) + "r" * len(self.places)
        lines = [rf"\begin{{tabular}}{{{layout}}}", r"\toprule", _latex_row(heads)]
        before: tuple[str, ...] = ()
        for row, texts in zip(self.rows, rows, strict=True):
            lines += [r"\midrule"] if row.names[:-1] != before[:-1] or not before else []
            for k, (own, old) in enumerate(zip(row.names, before, strict=False)):
                texts[k] = "" if own == old else texts[k]  # a name is said once
            grey = [rf"\textcolor{{gray}}{{{text}}}" if text else "" for text in texts]
            lines.append(_latex_row(grey if row.is_pale else texts))
            before = row.names
        lines.append(r"\bottomrule")
        about = rf"\multicolumn{{{len(heads)}}}{{l}}"
        lines += [rf"{about}{{\tiny {escaped(note)}}} \\" for note in self.notes]
        title = f"% {self.title}\n" if self.title else ""
        return title + "\n".join([*lines, r"\end{tabular}"]) + "\n"

    def _latex_texts(self) -> Iterator[list[str]]:
        """The headings and the rows, with one text for every name and place."""
        titles: list[str] = []
        for first, *small in self.places:
            group, own = self.columns[first].group, [self.columns[k].heading for k in small]
            whole = ", ".join(filter(None, (group, self.columns[first].heading)))
            titles.append(" / ".join([whole, *own]))
        yield [escaped(text) for text in (*self.names, *titles)]
        for row in self.rows:
            pairs = zip(self.columns, row.cells, strict=True)
            texts = [_latex_cell(*pair, is_best=pair[0] in row.best) for pair in pairs]
            parts = [[texts[k] for k in place] for place in self.places]
            parts = [[_MISSING] if set(some) == {_MISSING} else some for some in parts]
            yield [*map(escaped, row.names), *map(" / ".join, parts)]


def escaped(text: str) -> str:
    """Text that LaTeX prints as it is."""
    return "".join(_LATEX_LETTERS.get(character, character) for character in text)


def _latex_row(cells: Iterable[str]) -> str:
    return " & ".join(cells) + r" \\"


def _latex_cell(column: Column, cell: Cell, *, is_best: bool) -> str:
    if cell is None:
        return _MISSING
    text, margin = escaped(column.text(cell)), column.margin(cell)
    text = rf"\textbf{{{text}}}" if is_best else text
    small = margin.replace("±", r"$\,\pm\,$") if margin[:1] == "±" else rf"\,{escaped(margin)}"
    return text + (rf"{{\tiny{small}}}" if margin else "")
