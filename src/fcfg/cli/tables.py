"""Numbers on a terminal."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from fcfg.evaluation.summary import Cell, Summary
    from fcfg.metrics import Estimate

_Column: TypeAlias = "tuple[str, int, bool, Callable[[Cell], Estimate | None]]"


def print_summary(summary: Summary) -> None:
    """A table for each intervention: what changed, what should not have, and what is lost.

    Where the model fails without guidance, that is said first.

    Args:
        summary: Of a whole run.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table

    from fcfg.reports.failures import failures
    from fcfg.reports.numbers import named
    from fcfg.reports.rule_styles import setting
    from fcfg.reports.texts import in_words
    from fcfg.reports.verdict import reading

    if failures(summary):
        print(*reading(summary), sep="\n")
    console = Console(highlight=False, markup=False, soft_wrap=False)
    for do in summary.dos:
        cells = [cell for cell in summary.cells.values() if cell.do == do]
        columns = [column for column in _columns(cells[0]) if any(map(column[3], cells))]
        title = f"{named(do)}: {in_words(summary, do)}"
        table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left")
        table.add_column("guidance", no_wrap=True)
        for title, *_ in columns:
            table.add_column(title, justify="right")
        for cell in cells:
            found = [_text(find(cell), digits, signed) for _, digits, signed, find in columns]
            table.add_row(setting(cell.guidance).label, *found)
        console.print(table)
    print(_legend(summary))


def _columns(cell: Cell) -> list[_Column]:
    """Title, digits, whether signed, and where the number is."""
    drifts: list[_Column] = [
        (
            f"{name}{' (target)' if name in cell.targets else ''}",
            2,
            True,
            lambda cell, name=name: cell.drift.get(name),
        )
        for name in cell.attributes
    ]
    return [
        *drifts,
        ("error of change", 2, False, lambda cell: cell.truth_changed),
        ("way back", 3, False, lambda cell: cell.reversal_mae),
    ]


def _text(estimate: Estimate | None, digits: int, signed: bool) -> str:
    from fcfg.reports.numbers import number

    if estimate is None:
        return ""
    spread = (estimate.high - estimate.low) / 2
    return f"{number(estimate.value, digits, signed=signed)} ±{spread:.{digits}f}"


def _legend(summary: Summary) -> str:
    from fcfg.reports.numbers import SD, drift_units, knows_truth, listed

    is_true, units = knows_truth(summary), drift_units(summary)
    against = "in the true counterfactual" if is_true else "without guidance"
    sd = f"standard deviations of the {'factor' if is_true else 'factual values'} (sd)"
    of = {unit: f" for {listed(names)}" if len(units) > 1 else "" for unit, names in units.items()}
    said = listed(f"in {sd if unit == SD else unit}{of[unit]}" for unit in units)
    lines = [
        f"Under each attribute: how much more of it the judge reads than {against}, {said}",
        "(positive is amplification, negative attenuation), with half of the 95 % interval.",
    ]
    if is_true:
        lines.append(
            "Error of change: on pixels that truly change; 1 is nothing done, 0 the truth."
        )
    if summary.header["reverse"]:
        lines.append("Way back: mean absolute error after reversing, pixels in [-1, 1].")
    return "\n".join(lines)
