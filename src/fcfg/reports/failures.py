"""Whether a run can say anything: its judge, and the model's answers without guidance.

A comparison of guidances is of interest where the model itself works. What fails without guidance
is said before all else, and instead of all else.
"""

from __future__ import annotations

from fcfg.evaluation.result_files import BASELINE
from fcfg.evaluation.summary import Cell, Summary
from fcfg.metrics import MIN_IMAGES, Estimate
from fcfg.reports.numbers import average, listed, named, with_interval

#: How far from the factual image an answer may be that should be that image, as a share of what
#: an unrelated image would be: beyond it, the answer is nearer to any other image.
SHARE = 0.5
#: The same as a mean absolute error in [-1, 1], for runs that do not say how far unrelated images
#: are: 0.22 for drawn faces and for digits, 0.39 for radiographs, 0.56 for photographs of faces.
#: Trained models stay below 0.04.
FARTHEST = 0.2
#: Fewer images than this say nothing of what the judge reads.
FEWEST = 10
_UNIT = "mean absolute error, pixels in [−1, 1]"


def failures(summary: Summary) -> list[str]:
    """Why nothing can be said of guidance, a sentence each; nothing where all is well.

    Args:
        summary: Of a whole run.
    """
    return [
        said for check in (_blind, _unfaithful, _illegible, _unmoved) for said in check(summary)
    ]


def blind(summary: Summary) -> list[str]:
    """Attributes that the judge reads from factual images no better than chance.

    Args:
        summary: Of a whole run.
    """
    return [name for name, found in summary.real_correlation.items() if _is_chance(found)]


def _blind(summary: Summary) -> list[str]:
    """A judge that reads no target from factual images measures nothing."""
    targets = {name for cell in summary.cells.values() for name in cell.targets}
    read = {name: e for name, e in summary.real_correlation.items() if name in targets}
    if not read or not read.keys() <= set(blind(summary)):
        return []
    return [
        f"The judge reads {listed(read)} from factual images no better than chance (correlation "
        f"{listed(with_interval(e, 2) for e in read.values())}), so nothing here measures "
        "anything: train the judge for longer, or on more images."
    ]


def _unfaithful(summary: Summary) -> list[str]:
    """What should be one image is nearer to any other.

    How far answers are from the factual images says nothing: an intervention may change more
    than another image of the run would.
    """
    plain, apart = _plain(summary), summary.unrelated
    limit = FARTHEST if apart is None else SHARE * apart.value
    null = summary.composition.change_mae if summary.composition is not None else None
    back, truth = (_mean(plain, part) for part in ("reversal", "truth"))
    given = "Asked to change nothing, and without guidance, the model gives images that are"
    ends = "There and back again without guidance, the model ends at images that are"
    answers = "Without guidance, the model's answers are"
    sentences: list[str] = []
    for start, error, others in (
        (given, null, "the factual ones"),
        (ends, back, "the factual ones"),
        (answers, truth, "the true ones"),
    ):
        if error is not None and error.low > limit:
            beside = (
                f"trained models stay below {limit:g}"
                if apart is None
                else f"an unrelated image is {apart.value:.2f} away"
            )
            value = with_interval(error, 2)
            sentences.append(f"{start} {value} away from {others} ({_UNIT}); {beside}.")
    return sentences


def _plain(summary: Summary) -> list[Cell]:
    return [cell for cell in summary.cells.values() if cell.guidance == BASELINE]


def _mean(cells: list[Cell], part: str) -> Estimate | None:
    found: list[Estimate | None] = [getattr(cell, f"{part}_mae") for cell in cells]
    return average(estimate for estimate in found if estimate is not None)


def _illegible(summary: Summary) -> list[str]:
    """From answers without guidance the judge reads nothing of what should have stayed put."""
    null = [] if summary.composition is None else [summary.composition]
    unseen = blind(summary)
    kept = average(
        cell.correlation[name]
        for cell in (*null, *_plain(summary))
        for name in cell.invariant
        if name in cell.correlation and name not in unseen
    )
    if kept is None or not _is_chance(kept):
        return []
    return [
        "From answers without guidance the judge reads what should have stayed put no better than "
        f"chance (correlation {with_interval(kept, 2)} on average)."
    ]


def _unmoved(summary: Summary) -> list[str]:
    """Without guidance, no intervention is seen to do anything to its target."""
    moved = {
        (name, cell.do): estimate
        for cell in _plain(summary)
        for name, estimate in cell.moved.items()
    }
    if not moved or not all(map(_is_chance, moved.values())):
        return []
    asked = listed(f"{name} under {named(do)}" for name, do in moved)
    return [f"Without guidance, no target is seen to move towards the value asked for: {asked}."]


def _is_chance(estimate: Estimate) -> bool:
    """Whether it may be 0 or less; of few images the number itself counts, of fewer nothing."""
    end = estimate.low if estimate.n >= MIN_IMAGES else estimate.value
    return estimate.n >= FEWEST and end <= 0
