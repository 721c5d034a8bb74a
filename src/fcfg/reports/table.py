"""Tables of numbers, each written in the same way as Markdown, LaTeX, CSV, HTML or on a terminal.

A :class:`Table` is data: rows with names, columns with units and digits, and numbers with their
intervals. The template ``macros.html.jinja`` writes it as HTML, :mod:`fcfg.cli.tables` on a
terminal, and the methods here as text.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, zip_longest
from typing import Self, TypeAlias

from fcfg.evaluation.metric_table import Better
from fcfg.metrics import Estimate
from fcfg.reports.numbers import interval, number

_LATEX = {
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
_FIELDS = ("metric", "attribute", "value", "low", "high", "n", "unit", "best", "note")


@dataclass(frozen=True)
class Number:
    """One number of a table, with its 95 % interval if it has one."""

    value: float
    low: float | None = None
    high: float | None = None
    n: int | None = None  #: number of images
    is_best: bool = False  #: whether it is bold: the best of its column, or a clear difference
    note: str = ""  #: a doubt about it

    @classmethod
    def of(cls, value: Estimate | float, *, is_best: bool = False) -> Self:
        """An estimate with its interval, or a plain number."""
        if isinstance(value, Estimate):
            return cls(value.value, value.low, value.high, value.n, is_best)
        return cls(value, is_best=is_best)


Cell: TypeAlias = Number | str | None  #: a number, words, or nothing


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
    attribute: str = ""  #: what it is measured of; "" for whole images
    role: str = ""  #: of the attribute, such as target
    is_small: bool = False  #: whether it stands in small print below the column before it

    @property
    def heading(self) -> str:
        """Its title and an arrow."""
        return f"{self.title} {self.better}".strip()

    @property
    def in_full(self) -> str:
        """Its heading with that of its group."""
        return (
            self.heading if self.is_small else ", ".join(filter(None, (self.group, self.heading)))
        )

    def text(self, value: float) -> str:
        """A number with the digits of the column.

        >>> Column("shift", signed=True).text(-0.256), Column("s", digits=None).text(0.12345)
        ('−0.26', '0.123')
        """
        if self.digits is None:
            return f"{value:.3g}"
        return number(value, self.digits, signed=self.signed)

    def interval(self, found: Number) -> str:
        """The interval in brackets; "" if there is none."""
        if found.low is None or found.high is None or self.digits is None:
            return ""
        return interval(found.low, found.high, self.digits, signed=self.signed)

    def margin(self, found: Number) -> str:
        """Half the width of the interval; "" if there is none."""
        if found.low is None or found.high is None or found.low == found.high:
            return ""
        return replace(self, signed=False).text((found.high - found.low) / 2)


@dataclass(frozen=True)
class Row:
    """One line of a table."""

    names: tuple[str, ...]  #: one for each of the table's
    cells: tuple[Cell, ...]  #: one for each column
    mark: str = ""  #: a drawing in front of the name, as HTML
    colour: str = ""  #: of the name, in CSS
    is_pale: bool = False  #: whether it is no result of the run, such as a number of the paper


@dataclass(frozen=True)
class Table:
    """Rows of numbers; columns that have none are left out by :meth:`filled`.

    >>> table = Table(("rule",), (Column("shift", digits=1),), (Row(("CFG",), (Number(0.5),)),))
    >>> print(table.markdown())
    | rule | shift |
    |---|---|
    | CFG | 0.5 |
    <BLANKLINE>
    """

    names: tuple[str, ...]  #: headings of the names of rows
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    title: str = ""
    notes: tuple[str, ...] = ()

    def filled(self) -> Self:
        """The same table without columns that are empty."""
        numbers = range(len(self.columns))
        return self._keep([k for k in numbers if any(r.cells[k] is not None for r in self.rows)])

    def only(self, groups: Collection[str]) -> Self:
        """The same table with the columns of some groups, and the rows that have them."""
        kept = self._keep([k for k, own in enumerate(self.columns) if own.group in groups])
        return replace(kept, rows=tuple(row for row in kept.rows if any(row.cells)))

    def _keep(self, kept: Sequence[int]) -> Self:
        rows = (replace(row, cells=tuple(row.cells[k] for k in kept)) for row in self.rows)
        return replace(self, columns=tuple(self.columns[k] for k in kept), rows=tuple(rows))

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

    def markdown(self) -> str:
        """The table in Markdown: numbers with half of their intervals, the best ones bold."""
        lines = [table_row(self._headings()), "|" + "---|" * len(self._headings())]
        lines += [table_row([*row.names, *self._texts(row, _markdown, "–")]) for row in self.rows]
        return "\n".join([*lines, *(f"\n{note}" for note in self.notes)]) + "\n"

    def csv(self) -> str:
        """One line for each number, in full; a field that has nothing to say is empty."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([*self.names, *_FIELDS])
        writer.writerows(line for row in self.rows for line in self._lines(row))
        return text.getvalue()

    def latex(self) -> str:
        r"""A ``tabular`` to ``\input`` into a document that uses booktabs and xcolor."""
        heads = self._headings()
        layout = "l" * len(self.names) + "r" * len(self.places)
        lines = [rf"\begin{{tabular}}{{{layout}}}", r"\toprule", _latex_row(map(escaped, heads))]
        before: tuple[str, ...] = ()
        for row in self.rows:
            lines += [r"\midrule"] if row.names[:-1] != before[:-1] or not before else []
            names = ("" if own == old else own for own, old in zip_longest(row.names, before))
            cells = [*(escaped(name or "") for name in names), *self._texts(row, _latex, "--")]
            lines.append(_latex_row(map(_grey, cells) if row.is_pale else cells))
            before = row.names
        lines.append(r"\bottomrule")
        about = rf"\multicolumn{{{len(heads)}}}{{l}}"
        lines += [rf"{about}{{\tiny {escaped(note)}}} \\" for note in self.notes]
        title = f"% {self.title}\n" if self.title else ""
        return title + "\n".join([*lines, r"\end{tabular}"]) + "\n"

    def _headings(self) -> list[str]:
        columns = [" / ".join(self.columns[k].in_full for k in place) for place in self.places]
        return [*self.names, *columns]

    def _texts(self, row: Row, write: _Write, missing: str) -> Iterator[str]:
        for place in self.places:
            cells = [(self.columns[k], row.cells[k]) for k in place]
            texts = [missing if cell is None else write(column, cell) for column, cell in cells]
            yield missing if set(texts) == {missing} else " / ".join(texts)

    def _lines(self, row: Row) -> Iterator[Sequence[object]]:
        for column, cell in zip(self.columns, row.cells, strict=True):
            if cell is None:
                continue
            about = (*row.names, column.metric or column.title, column.attribute)
            if isinstance(cell, str):
                yield (*about, cell, "", "", "", column.unit, "", "")
            else:
                ends, best = (cell.low, cell.high, cell.n), "best" if cell.is_best else ""
                yield (*about, cell.value, *ends, column.unit, best, cell.note)


_Write: TypeAlias = Callable[[Column, Number | str], str]


def _markdown(column: Column, cell: Number | str) -> str:
    if isinstance(cell, str):
        return cell
    text, margin = column.text(cell.value), column.margin(cell)
    text = f"**{text}**" if cell.is_best else text
    return f"{text} ± {margin}" if margin else text


def _latex(column: Column, cell: Number | str) -> str:
    if isinstance(cell, str):
        return escaped(cell)
    text, margin = escaped(column.text(cell.value)), column.margin(cell)
    text = rf"\textbf{{{text}}}" if cell.is_best else text
    return text + rf"{{\tiny$\,\pm\,${margin}}}" if margin else text


def _grey(text: str) -> str:
    return rf"\textcolor{{gray}}{{{text}}}" if text else ""


def _latex_row(cells: Iterable[str]) -> str:
    return " & ".join(cells) + r" \\"


def table_row(cells: Iterable[str]) -> str:
    r"""One line of a Markdown table.

    >>> table_row(["do", "a|b"])
    '| do | a\\|b |'
    """
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"


def escaped(text: str) -> str:
    r"""Text that LaTeX prints as it is.

    >>> print(escaped("100 % of lung_mass"))
    100 \% of lung\_mass
    """
    return "".join(_LATEX.get(character, character) for character in text)
