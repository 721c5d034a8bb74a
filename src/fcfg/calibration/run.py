"""Choose the weights of a guidance rule for a model, from images it was not trained on."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fcfg.calibration.material import Material, TrueCounterfactual
from fcfg.causal.attributes import AttributeSpace
from fcfg.guidance import Guidance
from fcfg.pipeline.calibration import Calibration, with_weights
from fcfg.pipeline.counterfactual import CounterfactualPipeline
from fcfg.pipeline.plans import DEFAULT_GUIDANCE, chosen_sampling
from fcfg.sampling import PRESETS, SamplingConfig, SamplingLike
from fcfg.support.errors import InputError, check_is
from fcfg.support.images import ImagesLike
from fcfg.support.progress import OnProgress
from fcfg.support.tables import TableLike

#: Weights that are measured.
WEIGHTS = (0.5, 1.0, 1.5, 2.0, 3.0)
#: Images from which on weights are raised by default, see ``at_least_real``.
RAISING = 256


def calibrate(
    pipeline: CounterfactualPipeline,
    images: ImagesLike,
    attributes: TableLike,
    *,
    guidance: Guidance = DEFAULT_GUIDANCE,
    sampling: SamplingLike = "default",
    weights: Sequence[float] = WEIGHTS,
    count: int | None = None,
    at_least_real: bool | None = None,
    accept: bool = False,
    seed: int = 0,
    truth: TrueCounterfactual | None = None,
    data: Mapping[str, Any] | None = None,
    cache: Path | None = None,
    batch_size: int = 256,
    on_progress: OnProgress | None = None,
) -> Calibration:
    """Choose the weight of every attribute, so that counterfactuals read like real images.

    Every attribute is intervened on by itself: a binary one is flipped, a categorical one set to
    another level, a continuous one to the 10th or the 90th percentile, the one that is farther.
    The judge reads the counterfactuals under each weight, and the weight with the smallest
    distance to real images is chosen, see :mod:`fcfg.calibration.criterion`. Where it is the
    smallest or the largest weight, up to three more are measured beyond it.

    They become the default guidance of the pipeline, unless they are in doubt.

    Args:
        pipeline: The model, with a judge.
        images: Images that the model was not trained on, as in
            :meth:`fcfg.CounterfactualPipeline.counterfactual`. Attributes should be balanced over
            them, so that the images with a value differ from the others in nothing else.
        attributes: Column of factual values for every attribute.
        guidance: Rule whose weight is searched, with any weight, such as cfg:1;anchor=true. Of a
            factored rule it is that of the group affected, or of the target. Its other weights and
            options stay.
        sampling: Solver, grid and steps; the model uses them by default, too, once it has the
            calibration.
        weights: Weights to measure first, ascending; the best is searched between them.
        count: Number of images that get counterfactuals, the first ones; all by default. The
            judge compares these with all images.
        at_least_real: Whether to raise the weight of a binary attribute until the judge tells its
            values apart as well on counterfactuals as on real images (AUROC), in 97.5 % of
            resamples. Where the judge is unsure, the weight alone does not ensure that. By default
            with at least 256 images that get counterfactuals: with few, it raises more.
        accept: Whether to use the new weights even where one lies at an end of those measured, or
            where no direction of an attribute has 8 images. Otherwise the model keeps its default.
        seed: Seed of draws and resamples.
        truth: Function that draws the true counterfactuals of the first ``count`` images, in a
            world where they are known.
        data: Description of the images, for the record.
        cache: Folder that keeps what is measured, so that an interrupted calibration resumes.
        batch_size: Largest number of network rows per call.
        on_progress: Callback invoked with the share that is done.
    """
    check_is("guidance", guidance, Guidance, "a fcfg.Guidance", do="call Guidance.parse(text)")
    chosen = chosen_sampling(sampling, None, guidance.anchor, guidance.drawn_noise)
    rule, grid = checked_search(guidance, chosen, weights, pipeline.space)
    how: dict[str, Any] = {"count": count, "seed": seed, "truth": truth, "cache": cache}
    material = Material.of(pipeline, images, attributes, **how, batch_size=batch_size)
    raises = len(material.images) >= RAISING if at_least_real is None else at_least_real
    report: OnProgress = on_progress or (lambda share: None)
    measurement = material.measurement(rule, chosen)
    found = material.calibration(measurement, grid, report, data=data, raises=raises)
    if accept or not found.doubts:
        pipeline.calibration = found
    else:
        doubts = "; ".join(found.doubts)
        warnings.warn(
            f"calibration: {doubts}. The pipeline keeps its default, unless accept=True",
            stacklevel=2,
        )
    return found


def checked_search(
    guidance: Guidance,
    sampling: SamplingConfig,
    weights: Sequence[float | str],
    space: AttributeSpace,
) -> tuple[Guidance, list[float]]:
    """Return the guidance with the searched weight at 1, and the weights to measure.

    A rule that cannot be searched is refused, and so are weights that it does not have.
    """
    rule = Guidance.parse(repr(guidance))  # refuses functions, which a file cannot hold
    if rule.anchor and sampling == PRESETS["paper"]:
        raise InputError(
            "sampling",
            expected="another one than 'paper', which is never anchored",
            got=str(sampling),
            do="give a guidance without anchor=true, such as fcfg:affected=1,invariant=1",
        )
    grid = checked_weights(weights)
    for weight in (*grid, 1.0):  # refuses weights that the rule does not have
        rule = with_weights(rule, dict.fromkeys(space.names, weight))
    return rule, grid


def checked_weights(weights: Sequence[float | str]) -> list[float]:
    """Return the weights to measure first; refuse what cannot be searched."""
    try:
        grid = [float(weight) for weight in weights]
    except ValueError:  # of the command line
        grid = []
    if len(grid) < 2 or grid[0] < 0 or grid != sorted(set(grid)):
        raise InputError(
            "weights",
            expected="at least two numbers, 0 or more, ascending",
            got=list(weights),
            do=f"{', '.join(map(str, WEIGHTS))} are the default",
        )
    return grid
