"""Sentences that say what came out, made from the numbers and from nothing else."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from fcfg.evaluation.summary import Cell, Summary
from fcfg.metrics import Estimate
from fcfg.reports.failures import blind, failures
from fcfg.reports.numbers import (
    PROBABILITY,
    SD,
    distance,
    drift_units,
    listed,
    named,
    number,
    off_target,
    on_target,
    with_interval,
)
from fcfg.reports.rule_styles import Setting, setting, strongest

_DIGITS = 2
_FAILED = "This run fails without guidance, so it says nothing about guidance."
_WORDS = {SD: "sd", PROBABILITY: "in probability"}


def reading(summary: Summary) -> list[str]:
    """What global guidance does to attributes that should stay put, and what factored does.

    The strongest global setting is compared with the factored one beside it (see
    :func:`fcfg.reports.rule_styles.strongest`), over the interventions that have both, by paired
    differences. Where an interval includes 0, no difference could be told, and the sentence says
    so. Attributes of each unit have sentences of their own. A run that cannot say anything says
    why, and nothing else (see :func:`fcfg.reports.failures.failures`).

    Args:
        summary: Of a whole run.
    """
    failed = failures(summary)
    if failed:
        return [_FAILED, *failed, "What helps is a longer training, or more steps."]
    everywhere, factored = strongest([setting(text) for text in summary.settings])
    chosen = [s.text for s in (everywhere, factored) if s is not None]
    dos = [do for do in summary.dos if all((do, text) in summary.cells for text in chosen)]
    cells = {text: [summary.cells[(do, text)] for do in dos] for text in chosen}
    unseen = blind(summary)
    units = {
        unit: tuple(name for name in names if name not in unseen)
        for unit, names in drift_units(summary).items()
    }
    sentences = [
        f"The judge reads {name} no better than chance from these factual images, so nothing is "
        "said of it."
        for name in unseen
    ]
    if everywhere is None:
        sentences.append("Global guidance was not run, so nothing can be said of it.")
    else:
        sentences += _of_global(everywhere, cells[everywhere.text], units)
    if factored is None:
        sentences.append("Factored guidance was not run, so nothing can be said of it.")
    else:
        sentences += _of_factored(factored, everywhere, cells, units)
    return sentences


@dataclass(frozen=True)
class _Group:
    """Attributes of one unit among those that should stay put, and their mean drift."""

    unit: str
    names: tuple[str, ...]
    drift: Estimate
    alone: bool  #: no other unit was measured

    @property
    def them(self) -> str:
        return "them" if self.alone else listed(self.names)

    @property
    def who(self) -> str:
        return "attributes that should stay put" + ("" if self.alone else f" ({self.them})")

    def value(self, estimate: Estimate, *, signed: bool = False) -> str:
        return f"{_told(estimate, signed=signed)} {_WORDS[self.unit]}"


def _groups(cells: list[Cell], units: dict[str, tuple[str, ...]]) -> list[_Group]:
    measured = {name for cell in cells for name in cell.invariant if name in cell.drift}
    found = {unit: tuple(n for n in names if n in measured) for unit, names in units.items()}
    drifts = {unit: off_target(cells, names) for unit, names in found.items()}
    there = {unit: drift for unit, drift in drifts.items() if drift is not None}
    return [_Group(unit, found[unit], drift, len(there) == 1) for unit, drift in there.items()]


def _of_global(
    everywhere: Setting, cells: list[Cell], units: dict[str, tuple[str, ...]]
) -> list[str]:
    name, groups = f"Global guidance ({everywhere.label})", _groups(cells, units)
    if not groups:
        return [f"{name} had nothing to disturb: no attribute that should stay put was measured."]
    return [_moves(name, group, cells) for group in groups]


def _moves(name: str, group: _Group, cells: list[Cell]) -> str:
    drift, value = group.drift, group.value(group.drift, signed=True)
    if not drift.excludes_zero:
        return (
            f"{name} was not seen to change {group.who}: {value} on average, and no difference "
            "from 0 could be told."
        )
    done = "amplifies" if drift.value > 0 else "attenuates"
    most = _most(cells, group.names)
    return f"{name} {done} {group.who}: {value} on average, an interval that excludes 0{most}."


def _of_factored(
    factored: Setting,
    everywhere: Setting | None,
    cells: dict[str, list[Cell]],
    units: dict[str, tuple[str, ...]],
) -> list[str]:
    name, ours = f"Factored guidance ({factored.label})", cells[factored.text]
    groups = _groups(ours, units)
    if not groups:
        return [f"{name} had nothing to spare: no attribute that should stay put was measured."]
    if everywhere is None:
        return [_alone(name, group, ours) for group in groups]
    theirs = cells[everywhere.text]
    said = [_beside(everywhere, group, ours, theirs) for group in groups]
    said[-1] += f"; {'; '.join(_targets(ours, theirs, units)) or 'the target was not measured'}"
    return [f"{name} {sentence}." for sentence in said]


def _alone(name: str, group: _Group, cells: list[Cell]) -> str:
    value = f"{group.value(group.drift, signed=True)} on average{_most(cells, group.names)}"
    told = "the interval excludes 0" if group.drift.excludes_zero else "not told from 0"
    return f"{name} moves {group.who} by {value}; {told}."


def _beside(everywhere: Setting, group: _Group, ours: list[Cell], theirs: list[Cell]) -> str:
    value = f"{group.value(group.drift, signed=True)} on average{_most(ours, group.names)}"
    base = off_target(theirs, group.names)
    assert base is not None  # the same interventions
    gap = distance(group.drift) - distance(base)
    size = group.value(gap.scaled(-1) if gap.value < 0 else gap)
    if not gap.excludes_zero:
        return (
            f"moves {group.them} by {value}, and no difference to {everywhere.label} could be told"
        )
    if gap.value < 0:
        return f"disturbs {group.them} less: {value}, closer to 0 by {size}"
    return f"disturbs {group.them} more: {value}, further from 0 by {size}"


def _targets(
    ours: list[Cell], theirs: list[Cell], units: dict[str, tuple[str, ...]]
) -> Iterator[str]:
    """How the targets of each unit fare, in a clause."""
    asked = {name for cell in ours for name in cell.targets if name in cell.drift}
    found = {unit: [n for n in names if n in asked] for unit, names in units.items()}
    for unit, names in found.items():
        reached, before = on_target(ours, names), on_target(theirs, names)
        if reached is None or before is None:
            continue
        several = any(others for other, others in found.items() if other != unit)
        target = listed(names) if several else "the target"
        gap, words = reached - before, _WORDS[unit]
        if not gap.excludes_zero:
            value = _told(gap, signed=True)
            yield f"on {target}, no difference could be told ({value} {words})"
        elif gap.value > 0:
            yield f"it moves {target} further, by {_told(gap)} {words}"
        else:
            yield f"it moves {target} less far, by {_told(gap.scaled(-1))} {words}"


def _told(estimate: Estimate, *, signed: bool = False) -> str:
    """A number and its interval, in so many digits that an end beside 0 is not shown as 0."""
    nearest = min(abs(estimate.low), abs(estimate.high))
    needed = math.ceil(-math.log10(2 * nearest)) if estimate.excludes_zero else _DIGITS
    return with_interval(estimate, max(_DIGITS, needed), signed=signed)


def _most(cells: list[Cell], names: tuple[str, ...]) -> str:
    """The attribute off target that moved most, if that could be told: a mean may hide it."""
    moved = [
        (cell.drift[name], name, cell.do)
        for cell in cells
        for name in cell.invariant
        if name in names and name in cell.drift and cell.drift[name].excludes_zero
    ]
    if not moved:
        return ""
    most, name, do = max(moved, key=lambda entry: abs(entry[0].value))
    return f" (most: {name} under {named(do)}, {number(most.value, _DIGITS, signed=True)})"
