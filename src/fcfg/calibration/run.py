"""Choose the weights of a guidance rule for a model, from images it was not trained on."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from torch import Tensor

from fcfg.answers import AnswerLoop, Store, in_blocks
from fcfg.calibration.choice import RealImages
from fcfg.calibration.criterion import Counts
from fcfg.calibration.measurements import Cell, Measurement, readings_of
from fcfg.causal.attributes import AttributeSpace, Table
from fcfg.evaluation.measurements import judge_of
from fcfg.evaluation.subset import draw_targets
from fcfg.guidance import Guidance
from fcfg.judge import judged
from fcfg.metrics import Bootstrap
from fcfg.pipeline.calibration import AttributeWeight, Calibration, with_weights
from fcfg.pipeline.counterfactual import CounterfactualPipeline
from fcfg.pipeline.plans import DEFAULT_GUIDANCE, chosen_sampling
from fcfg.sampling import PRESETS, SamplingConfig, SamplingLike
from fcfg.support.errors import InputError, check_integer, check_is
from fcfg.support.hashing import stream_seed
from fcfg.support.images import ImagesLike, image_keys
from fcfg.support.progress import OnProgress
from fcfg.support.tables import TableLike

#: Weights that are measured.
WEIGHTS = (0.5, 1.0, 1.5, 2.0, 3.0)
#: Images from which on weights are raised by default, see ``at_least_real``.
RAISING = 256
_RESAMPLES = 300
_BLOCK = 128  # images that are abducted together, which bounds the memory of their paths
#: Share of the progress after the first weights, and after each weight beyond their end.
_ROUNDS = (0.85, 0.9, 0.95, 1.0)
_MORE = "give more images"

#: Function from the values of a target, one for each image, to the true counterfactuals.
TrueCounterfactual: TypeAlias = Callable[[Table], Tensor]


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
    space, judge = pipeline.space, judge_of(pipeline)
    check_is("guidance", guidance, Guidance, "a fcfg.Guidance", do="call Guidance.parse(text)")
    chosen = chosen_sampling(sampling, None, guidance.anchor, guidance.drawn_noise)
    rule, grid = checked_search(guidance, chosen, weights, space)
    x = pipeline.read_images(images)
    table, keys = space.parse(attributes, len(x)), image_keys(x)
    asked = check_integer("count", len(x) if count is None else count, 2, len(x), do=_MORE)
    raises = asked >= RAISING if at_least_real is None else at_least_real
    readings = readings_of(space, judge.read(x, batch_size=batch_size), table)
    resamples = _resamples(asked, len(x), seed)
    real = RealImages(space, pipeline.graph, table, readings, resamples)
    drawn = draw_targets(space, table, space.names, keys, seed, "quantiles")
    targets = {name: column[:asked] for name, column in drawn.items()}
    targets = {name: column for name, column in targets.items() if real.directions(name, column)}
    if not targets:
        raise InputError(
            "images",
            expected="an attribute of which several images have each of two values",
            got=f"none, with counterfactuals of {asked} of {len(x)} images",
            do=_MORE,
        )
    true = {} if truth is None else {n: truth({n: column}) for n, column in targets.items()}
    true_readings = {
        name: judged(space[name], judge.read(drawing).scores[name], targets[name])
        for name, drawing in true.items()
    }
    first = x[:asked], {name: column[:asked] for name, column in table.items()}
    how: dict[str, Any] = {"keys": keys[:asked], "batch_size": batch_size, "strict": True}
    asking = AnswerLoop(pipeline, *first, [], blocks=in_blocks(range(asked), _BLOCK), **how)
    store = None if cache is None else Store(cache)
    measurement = Measurement(asking, judge, rule, chosen, targets, true, seed, store)

    def choose(name: str, cells: Mapping[float, Cell]) -> AttributeWeight:
        truth = true_readings.get(name)
        return real.weight(name, targets[name], cells, truth, at_least_real=raises)

    found = Calibration(
        model=Calibration.digest(pipeline.denoiser),
        rule=repr(rule),
        sampling=str(chosen),
        images=asked,
        references=len(x),
        seed=seed,
        data=dict(data or {}),
        at_least_real=raises,
        attributes=_search(measurement, grid, choose, on_progress or (lambda share: None)),
    )
    if accept or not found.doubts:
        pipeline.calibration = found
    else:
        doubts = "; ".join(found.doubts)
        warnings.warn(
            f"calibration: {doubts}. The pipeline keeps its default, unless accept=True",
            stacklevel=2,
        )
    return found


def _search(
    measurement: Measurement,
    grid: Sequence[float],
    choose: Callable[[str, Mapping[float, Cell]], AttributeWeight],
    on_progress: OnProgress,
) -> dict[str, AttributeWeight]:
    """Return the weight of every attribute, and measure beyond the end where it lies there."""
    cells: dict[str, dict[float, Cell]] = {name: {} for name in measurement.targets}
    found: dict[str, AttributeWeight] = {}
    wanted: dict[str, Sequence[float]] = dict.fromkeys(cells, grid)
    for start, end in pairwise((0.0, *_ROUNDS)):

        def report_round(share: float, low: float = start, high: float = end) -> None:
            on_progress(low + (high - low) * share)

        try:
            measured = measurement.cells(wanted, report_round)
        except InputError:  # a weight beyond the end that the rule does not have, or that breaks
            if not found:
                raise
            break
        for name, own in measured.items():
            if own:
                cells[name] = dict(sorted((cells[name] | own).items()))
                found[name] = choose(name, cells[name])
        wanted = {name: _beyond(own) for name, own in found.items()}
        if not any(wanted.values()):
            break
    on_progress(1.0)
    return found


def _beyond(own: AttributeWeight) -> list[float]:
    """Return the next weight beyond the end where a weight lies, if it does."""
    (first, *_), *_, (last, *_) = own.curve
    if not own.is_at_end:
        return []
    return [1.5 * last] if own.weight > (first + last) / 2 else [first / 2] * (first > 0)


def _resamples(asked: int, total: int, seed: int) -> Counts:
    """Resample the images with counterfactuals, and the others, each among themselves."""
    parts = [
        Bootstrap(n, resamples=_RESAMPLES, seed=stream_seed(seed, "resample", part)).counts
        for part, n in (("asked", asked), ("others", total - asked))
        if n
    ]
    return np.concatenate(parts, axis=1)


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
    for weight in (*grid, 1.0):  # refuses weights that the rule does not have
        rule = with_weights(rule, dict.fromkeys(space.names, weight))
    return rule, grid
