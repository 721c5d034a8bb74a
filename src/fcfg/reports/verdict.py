"""Sentences that state the outcome of a run, derived from its numbers alone.

A comparison of guidances is meaningful only if the model works. If it fails without guidance, the
verdict says so and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from fcfg.evaluation.metric_table import PROBABILITY, SD, drift_units
from fcfg.evaluation.result_files import BASELINE
from fcfg.evaluation.summary import Cell, Summary
from fcfg.metrics import MIN_IMAGES, Estimate
from fcfg.reports.numbers import (
    average,
    distance,
    listed,
    named,
    number,
    off_target,
    on_target,
    precise,
    with_interval,
)
from fcfg.reports.rule_styles import Setting, setting, strongest

#: Largest distance between two images that should be the same, as a share of the distance between
#: unrelated images.
SHARE = 0.5
#: The same as a mean absolute error in [-1, 1], for runs that did not measure unrelated images.
#: Those are 0.22 apart for drawn faces and digits, 0.39 for radiographs, 0.56 for photographs of
#: faces. Trained models stay below 0.04.
FARTHEST = 0.2
#: Fewest images from which the judge's scores can be checked, and guidances compared.
FEWEST = 10
_DIGITS = 2
_UNITS = {SD: "sd", PROBABILITY: "in probability"}
_KEPT = "attributes that should not change"


def reading(summary: Summary) -> list[str]:
    """What global guidance does to attributes that should not change, and what factored does.

    The strongest global setting is compared with a factored one (see
    :func:`fcfg.reports.rule_styles.strongest`) over the interventions that have both, by paired
    differences. If an interval includes 0, the sentence says that no difference was detected.
    Attributes of each unit have sentences of their own. If :func:`failures` finds any, they
    replace the comparison; fewer than ten images are not compared.

    Args:
        summary: Summary of a whole run.
    """
    failed = failures(summary) if summary.n > 1 else []  # one image has no intervals
    if failed:
        first = "The model fails without guidance, so this run says nothing about guidance."
        return [first, *failed, "Train the model for longer, or sample with more steps."]
    if summary.n < FEWEST:
        count = "One image is" if summary.n == 1 else f"{summary.n} images are"
        return [f"{count} too few to say anything about guidance; evaluate at least {FEWEST}."]
    unseen = _unread(summary)
    plain, factored = strongest([setting(text) for text in summary.settings])
    chosen = [s.text for s in (plain, factored) if s is not None]
    dos = [do for do in summary.dos if all((do, text) in summary.cells for text in chosen)]
    cells = {text: [summary.cells[(do, text)] for do in dos] for text in chosen}
    units = {
        unit: tuple(name for name in names if name not in unseen)
        for unit, names in drift_units(summary).items()
    }
    return [
        *(
            f"The judge reads {name} from these factual images no better than chance, so it is "
            "left out."
            for name in unseen
        ),
        *_of_global(plain, cells, units),
        *_of_factored(factored, plain, cells, units),
    ]


@dataclass(frozen=True)
class _Group:
    """Attributes of one unit that should not change, and their mean drift."""

    unit: str
    names: tuple[str, ...]
    drift: Estimate
    alone: bool  #: whether it is the only unit

    @property
    def them(self) -> str:
        return "them" if self.alone else listed(self.names)

    @property
    def title(self) -> str:
        return _KEPT if self.alone else f"{_KEPT} ({self.them})"


def _groups(cells: list[Cell], units: dict[str, tuple[str, ...]]) -> list[_Group]:
    measured = {name for cell in cells for name in cell.invariant if name in cell.drift}
    groups = [
        (unit, tuple(name for name in names if name in measured)) for unit, names in units.items()
    ]
    drifts = [(u, names, drift) for u, names in groups if (drift := off_target(cells, names))]
    return [_Group(*group, alone=len(drifts) == 1) for group in drifts]


def _of_global(
    plain: Setting | None, cells: dict[str, list[Cell]], units: dict[str, tuple[str, ...]]
) -> Iterator[str]:
    if plain is None:
        yield "Global guidance was not run."
        return
    name, own = f"Global guidance ({plain.label})", cells[plain.text]
    groups = _groups(own, units)
    if not groups:
        yield f"{name} had nothing to disturb: no attribute that should not change was measured."
    for group in groups:
        value = f"{_precise(group.drift, group.unit, signed=True)} on average"
        if not group.drift.excludes_zero:
            yield f"{name} has no detectable effect on {group.title}: {value}, which includes 0."
            continue
        verb = "amplifies" if group.drift.value > 0 else "attenuates"
        largest = _largest(own, group.names)
        yield f"{name} {verb} {group.title}: {value}, an interval that excludes 0{largest}."


def _of_factored(
    factored: Setting | None,
    plain: Setting | None,
    cells: dict[str, list[Cell]],
    units: dict[str, tuple[str, ...]],
) -> Iterator[str]:
    if factored is None:
        yield "Factored guidance was not run."
        return
    name, ours = f"Factored guidance ({factored.label})", cells[factored.text]
    groups = _groups(ours, units)
    if not groups:
        yield f"{name} had nothing to spare: no attribute that should not change was measured."
    for group in groups:
        drift = _precise(group.drift, group.unit, signed=True)
        value = f"{drift} on average{_largest(ours, group.names)}"
        if plain is None:
            zero = "excludes" if group.drift.excludes_zero else "includes"
            yield f"{name} moves {group.title} by {value}; the interval {zero} 0."
            continue
        theirs = cells[plain.text]
        sentence = f"{name} {_compared(plain, group, theirs, value)}"
        if group is groups[-1]:
            clauses = list(_targets(ours, theirs, units)) or ["the target was not measured"]
            sentence = "; ".join([sentence, *clauses])
        yield f"{sentence}."


def _compared(plain: Setting, group: _Group, theirs: list[Cell], value: str) -> str:
    base = off_target(theirs, group.names)
    assert base is not None  # of the same interventions
    gap = distance(group.drift) - distance(base)
    if not gap.excludes_zero:
        return f"moves {group.them} by {value}, with no detectable difference from {plain.label}"
    if gap.value < 0:
        size = _precise(gap.scaled(-1), group.unit)
        return f"disturbs {group.them} less: {value}, closer to 0 by {size}"
    return f"disturbs {group.them} more: {value}, further from 0 by {_precise(gap, group.unit)}"


def _targets(
    ours: list[Cell], theirs: list[Cell], units: dict[str, tuple[str, ...]]
) -> Iterator[str]:
    """A clause on the targets of each unit."""
    measured = {name for cell in ours for name in cell.targets if name in cell.drift}
    targets = {unit: [n for n in names if n in measured] for unit, names in units.items()}
    for unit, names in targets.items():
        after, before = on_target(ours, names), on_target(theirs, names)
        if after is None or before is None:
            continue
        is_alone = not any(others for other, others in targets.items() if other != unit)
        target, gap = "the target" if is_alone else listed(names), after - before
        if not gap.excludes_zero:
            value = _precise(gap, unit, signed=True)
            yield f"no difference on {target} was detected ({value})"
        elif gap.value > 0:
            yield f"it moves {target} further, by {_precise(gap, unit)}"
        else:
            yield f"it moves {target} less, by {_precise(gap.scaled(-1), unit)}"


def _precise(estimate: Estimate, unit: str, *, signed: bool = False) -> str:
    return f"{precise(estimate, _DIGITS, signed=signed)} {_UNITS[unit]}"


def _largest(cells: list[Cell], names: tuple[str, ...]) -> str:
    """The largest drift of a single attribute, which a mean may hide, if it excludes 0."""
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


def failures(summary: Summary) -> list[str]:
    """Reasons why the run says nothing about guidance, as sentences; empty if all is well.

    Unguided answers go through an inversion. If no other answer does, they say nothing about it.
    """
    others = [text for text in summary.settings if text != BASELINE]
    if others and all("drawn_noise=true" in text.split(";") for text in others):
        return list(_no_target_read(summary))
    checks = (_no_target_read, _unfaithful, _illegible, _unmoved)
    return [sentence for check in checks for sentence in check(summary)]


def _unread(summary: Summary) -> list[str]:
    """Attributes that the judge reads from factual images no better than chance."""
    return [name for name, found in summary.real_correlation.items() if _is_chance(found)]


def _no_target_read(summary: Summary) -> Iterator[str]:
    targets = {name for cell in summary.cells.values() for name in cell.targets}
    read = {name: e for name, e in summary.real_correlation.items() if name in targets}
    if read and read.keys() <= set(_unread(summary)):
        correlations = listed(with_interval(e, 2) for e in read.values())
        yield (
            f"The judge reads {listed(read)} from factual images no better than chance "
            f"(correlation {correlations}), so its scores mean nothing: train the judge for "
            "longer, or on more images."
        )


def _unfaithful(summary: Summary) -> Iterator[str]:
    """Images that should be the same are too far apart.

    The distance from counterfactual to factual image is no failure: an intervention may change
    more than the distance between two images of the run.
    """
    apart = summary.unrelated
    limit = FARTHEST if apart is None else SHARE * apart.value
    beside = f"trained models stay below {limit:g}"
    if apart is not None:
        beside = f"an unrelated image is {apart.value:.2f} away"
    plain = _unguided(summary)
    null = summary.composition and summary.composition.change_mae
    for start, error, others in (
        ("Without guidance or change, the model returns images", null, "factual"),
        (
            "There and back without guidance, the model returns images",
            _mean(cell.reversal_mae for cell in plain),
            "factual",
        ),
        (
            "Without guidance, the model makes counterfactuals",
            _mean(cell.truth_mae for cell in plain),
            "true",
        ),
    ):
        if error is not None and error.low > limit:
            yield (
                f"{start} that are {with_interval(error, 2)} away from the {others} ones "
                f"(mean absolute error, pixels in [−1, 1]); {beside}."
            )


def _unguided(summary: Summary) -> list[Cell]:
    return [cell for cell in summary.cells.values() if cell.guidance == BASELINE]


def _mean(estimates: Iterable[Estimate | None]) -> Estimate | None:
    return average(estimate for estimate in estimates if estimate is not None)


def _illegible(summary: Summary) -> Iterator[str]:
    """Without guidance, the judge cannot read attributes that should not have changed."""
    null = [] if summary.composition is None else [summary.composition]
    unseen = _unread(summary)
    kept = average(
        cell.correlation[name]
        for cell in (*null, *_unguided(summary))
        for name in cell.invariant
        if name in cell.correlation and name not in unseen
    )
    if kept is not None and _is_chance(kept):
        yield (
            f"From counterfactuals without guidance the judge reads {_KEPT} no better than chance "
            f"(correlation {with_interval(kept, 2)} on average)."
        )


def _unmoved(summary: Summary) -> Iterator[str]:
    """Without guidance, no target moves."""
    moved = {
        f"{name} under {named(cell.do)}": estimate
        for cell in _unguided(summary)
        for name, estimate in cell.moved.items()
    }
    if moved and all(map(_is_chance, moved.values())):
        yield f"Without guidance, no target moves towards the requested value: {listed(moved)}."


def _is_chance(estimate: Estimate) -> bool:
    """Whether it may be 0 or less: by its interval, or by its value if the images are few."""
    end = estimate.low if estimate.n >= MIN_IMAGES else estimate.value
    return estimate.n >= FEWEST and end <= 0
