"""Two sentences that say what came out, made from the numbers and from nothing else."""

from __future__ import annotations

import math

from fcfg.experiments.summary import Cell, Summary
from fcfg.metrics import Estimate
from fcfg.reports.families import Setting, setting, strongest
from fcfg.reports.numbers import (
    distance,
    drift_unit,
    named,
    number,
    off_target,
    on_target,
    with_interval,
)

_DIGITS = 2


def reading(summary: Summary) -> list[str]:
    """What global guidance does to attributes that should stay put, and what factored does.

    The strongest global setting is compared with the factored one beside it (see
    :func:`fcfg.reports.families.strongest`), over the interventions that have both, by paired
    differences. Where an interval includes 0, no difference could be told, and the sentence says
    so.

    Args:
        summary: Of a whole run.
    """
    everywhere, factored = strongest([setting(text) for text in summary.settings])
    chosen = [s.text for s in (everywhere, factored) if s is not None]
    dos = [do for do in summary.dos if all((do, text) in summary.cells for text in chosen)]
    cells = {text: [summary.cells[(do, text)] for do in dos] for text in chosen}
    unit = drift_unit(summary)[0]
    return [
        _of_global(everywhere, cells[everywhere.text], unit)
        if everywhere is not None
        else "Global guidance was not run, so nothing can be said of it.",
        _of_factored(factored, everywhere, cells, unit)
        if factored is not None
        else "Factored guidance was not run, so nothing can be said of it.",
    ]


def _of_global(everywhere: Setting, cells: list[Cell], unit: str) -> str:
    name, drift = f"Global guidance ({everywhere.label})", off_target(cells)
    if drift is None:
        return f"{name} had nothing to disturb: no attribute that should stay put was measured."
    value = f"{_told(drift, signed=True)} {unit}"
    if not drift.excludes_zero:
        return (
            f"{name} was not seen to change attributes that should stay put: {value} on average, "
            "and no difference from 0 could be told."
        )
    done = "amplifies" if drift.value > 0 else "attenuates"
    return (
        f"{name} {done} attributes that should stay put: {value} on average, an interval that "
        f"excludes 0{_most(cells)}."
    )


def _of_factored(
    factored: Setting, everywhere: Setting | None, cells: dict[str, list[Cell]], unit: str
) -> str:
    name, ours = f"Factored guidance ({factored.label})", cells[factored.text]
    drift = off_target(ours)
    if drift is None:
        return f"{name} had nothing to spare: no attribute that should stay put was measured."
    value = f"{_told(drift, signed=True)} {unit} on average{_most(ours)}"
    if everywhere is None:
        told = "the interval excludes 0" if drift.excludes_zero else "not told from 0"
        return f"{name} moves attributes that should stay put by {value}; {told}."
    theirs = cells[everywhere.text]
    base = off_target(theirs)
    assert base is not None  # the same interventions
    gap = distance(drift) - distance(base)
    size = _told(gap.scaled(-1) if gap.value < 0 else gap)
    if not gap.excludes_zero:
        said = f"moves them by {value}, and no difference to {everywhere.label} could be told"
    elif gap.value < 0:
        said = f"disturbs them less: {value}, closer to 0 by {size}"
    else:
        said = f"disturbs them more: {value}, further from 0 by {size}"
    return f"{name} {said}; {_target(ours, theirs)}."


def _target(ours: list[Cell], theirs: list[Cell]) -> str:
    """How the target fares, in a clause."""
    reached, before = on_target(ours), on_target(theirs)
    if reached is None or before is None:
        return "the target was not measured"
    gap = reached - before
    if not gap.excludes_zero:
        value = _told(gap, signed=True)
        return f"on the target, no difference could be told ({value})"
    if gap.value > 0:
        return f"it moves the target further, by {_told(gap)}"
    return f"it moves the target less far, by {_told(gap.scaled(-1))}"


def _told(estimate: Estimate, *, signed: bool = False) -> str:
    """A number and its interval, in so many digits that an end beside 0 is not shown as 0."""
    nearest = min(abs(estimate.low), abs(estimate.high))
    needed = math.ceil(-math.log10(2 * nearest)) if estimate.excludes_zero else _DIGITS
    return with_interval(estimate, max(_DIGITS, needed), signed=signed)


def _most(cells: list[Cell]) -> str:
    """The attribute off target that moved most, if that could be told: a mean may hide it."""
    moved = [
        (cell.drift[name], name, cell.do)
        for cell in cells
        for name in cell.invariant
        if name in cell.drift and cell.drift[name].excludes_zero
    ]
    if not moved:
        return ""
    most, name, do = max(moved, key=lambda entry: abs(entry[0].value))
    return f" (most: {name} under {named(do)}, {number(most.value, _DIGITS, signed=True)})"
