"""Reasons why a run says nothing about guidance, derived from its numbers alone.

A comparison of settings is meaningful only if the model works without guidance.
"""

from __future__ import annotations

from collections.abc import Iterator

from fcfg.evaluation.experiment import parts_of
from fcfg.evaluation.result_files import BASELINE
from fcfg.evaluation.summary import Cell, Summary
from fcfg.metrics import MIN_IMAGES, Estimate
from fcfg.metrics.intervals import average
from fcfg.reports.wording import listed, named, with_interval

#: Largest distance between two images that should be the same, as a share of the distance between
#: unrelated images.
SHARE = 0.5
#: The same as a mean absolute error in [-1, 1], for runs that did not measure unrelated images.
#: Those are 0.22 apart for drawn faces and digits, 0.39 for radiographs, 0.56 for photographs of
#: faces. Trained models stay below 0.04.
FARTHEST = 0.2
#: Fewest images from which the judge's scores can be checked, and settings compared.
FEWEST = 10


def failures(summary: Summary) -> list[str]:
    """Reasons why the run says nothing about guidance, as sentences; empty if all is well.

    Unguided answers go through an inversion. If no other answer does, they say nothing about it.
    One image has no intervals, and does not fail.
    """
    if summary.n == 1:
        return []
    others = [text for text in summary.settings if text != BASELINE]
    if others and all("drawn_noise=true" in parts_of(text)[0].split(";") for text in others):
        return list(_no_target_read(summary))
    checks = (_no_target_read, _unfaithful, _illegible, _unmoved)
    return [sentence for check in checks for sentence in check(summary)]


def unread(summary: Summary) -> list[str]:
    """Return the attributes that the judge reads from factual images no better than chance."""
    return [name for name, found in summary.real_correlation.items() if _is_chance(found)]


def _no_target_read(summary: Summary) -> Iterator[str]:
    targets = {name for cell in summary.cells.values() for name in cell.targets}
    read = {name: e for name, e in summary.real_correlation.items() if name in targets}
    if read and read.keys() <= set(unread(summary)):
        correlations = listed(with_interval(e, 2) for e in read.values())
        yield (
            f"The judge reads {listed(read)} from factual images no better than chance "
            f"(correlation {correlations}), so its scores mean nothing: train the judge for "
            "longer, or on more images."
        )


def _unfaithful(summary: Summary) -> Iterator[str]:
    """Images that should be the same are too far apart; an answer may be far from its image."""
    apart = summary.unrelated
    limit = FARTHEST if apart is None else SHARE * apart.value
    beside = f"trained models stay below {limit:g}"
    if apart is not None:
        beside = f"an unrelated image is {apart.value:.2f} away"
    plain = _unguided(summary)
    null = summary.composition and summary.composition.whole("change_mae")
    for start, error, others in (
        ("Without guidance or change, the model returns images", null, "factual"),
        (
            "There and back without guidance, the model returns images",
            average(cell.whole("reversal_mae") for cell in plain),
            "factual",
        ),
        (
            "Without guidance, the model makes counterfactuals",
            average(cell.whole("truth_mae") for cell in plain),
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


def _illegible(summary: Summary) -> Iterator[str]:
    """Without guidance, the judge cannot read attributes that should not have changed."""
    unseen = unread(summary)
    kept = average(
        found
        for cell in _unguided(summary)
        for name, found in cell.of("correlation").items()
        if name in cell.invariant and name not in unseen
    )
    if kept is not None and _is_chance(kept):
        yield (
            "From counterfactuals without guidance the judge reads attributes that should not "
            f"change no better than chance (correlation {with_interval(kept, 2)} on average)."
        )


def _unmoved(summary: Summary) -> Iterator[str]:
    """Without guidance, no target moves."""
    moved = {
        f"{name} under {named(cell.do)}": estimate
        for cell in _unguided(summary)
        for name, estimate in cell.of("moved").items()
    }
    if moved and all(map(_is_chance, moved.values())):
        yield f"Without guidance, no target moves towards the requested value: {listed(moved)}."


def _is_chance(estimate: Estimate) -> bool:
    """Whether it may be 0 or less: by its interval, or by its value if the images are few."""
    end = estimate.low if estimate.n >= MIN_IMAGES else estimate.value
    return estimate.n >= FEWEST and end <= 0
