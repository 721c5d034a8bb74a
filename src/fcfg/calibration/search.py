"""Choose a method for a model: each with the sampling, the variant and the weights that suit it.

Every method is calibrated under its samplings and variants, by the same rules. The one kept of a
method has the smallest error at its calibrated weights: where the truth is known, that of the
pixels that truly change; otherwise the distance to the image, which at calibrated, and so equal,
strength says how much else was changed. Where a weight lies at an end of those measured, others
may be better, so it loses to any other.

A part of the images chooses three of each method, and all images choose among these (successive
halving).

References:
    Non-stochastic best arm identification (Jamieson and Talwalkar, 2016).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from fcfg.calibration.material import Material, TrueCounterfactual
from fcfg.calibration.methods import METHODS, WEIGHTS, Candidate, candidates
from fcfg.calibration.run import checked_search, checked_weights
from fcfg.pipeline.calibration import WeightEstimate, with_weights
from fcfg.pipeline.counterfactual import CounterfactualPipeline
from fcfg.pipeline.methods import Method, Methods
from fcfg.sampling import SamplingLike, as_sampling
from fcfg.support.errors import InputError, listed, quoted
from fcfg.support.hashing import stream_seed
from fcfg.support.images import ImagesLike
from fcfg.support.progress import OnProgress
from fcfg.support.tables import TableLike
from fcfg.version import __version__

#: Of each method, how many are measured on all images.
KEPT = 3
#: Smallest number of images of the first round, and their share of all.
FEWEST, SHARE = 48, 4
_CALIBRATING = 0.9  # share of the progress; the rest are answers at calibrated weights


@dataclass(frozen=True)
class Tried:
    """A candidate, and what was measured of it."""

    candidate: Candidate
    images: int  #: with counterfactuals
    method: Method  #: its record


def compare_methods(
    pipeline: CounterfactualPipeline,
    images: ImagesLike,
    attributes: TableLike,
    *,
    methods: Sequence[str] = METHODS,
    samplings: Sequence[SamplingLike] | None = None,
    count: int | None = None,
    truth: TrueCounterfactual | None = None,
    seed: int = 0,
    data: Mapping[str, Any] | None = None,
    weights: Sequence[float] = WEIGHTS,
    cache: Path | None = None,
    batch_size: int = 256,
    on_progress: OnProgress | None = None,
    on_tried: Callable[[Tried], None] | None = None,
) -> Methods:
    """Calibrate several methods under several samplings and variants, and keep the best of each.

    The result is set as ``pipeline.methods``. What the model cannot do is left out, with a
    warning. To make a method the default, calibrate with its guidance and sampling.

    Args:
        pipeline: The model, with a judge.
        images: Images that the model was not trained on, as in :func:`fcfg.calibrate`.
        attributes: Column of factual values for every attribute.
        methods: Names of the methods, by default all of :data:`fcfg.calibration.METHODS`.
        samplings: Solvers, grids and steps to try; by default those of each method.
        count: Number of images that get counterfactuals, the first ones; all by default.
        truth: Function that draws the true counterfactuals of the first ``count`` images.
        seed: Seed of draws and resamples.
        data: Description of the images, for the record.
        weights: Weights to measure first, ascending.
        cache: Folder that keeps what is measured, so that an interrupted search resumes.
        batch_size: Largest number of network rows per call.
        on_progress: Callback invoked with the share that is done.
        on_tried: Callback invoked with everything that was measured, as soon as it was.
    """
    asked, grid = candidates(methods, samplings), checked_weights(weights)
    how: dict[str, Any] = {"count": count, "seed": seed, "truth": truth, "cache": cache}
    whole = Material.of(pipeline, images, attributes, **how, batch_size=batch_size)
    every = len(whole.images)
    few = min(every, max(FEWEST, every // SHARE))
    part = whole.some(np.random.default_rng(stream_seed(seed, "part")).permutation(every)[:few])
    rounds = {
        name: ((part, len(own)), (whole, KEPT))
        if few < every and len(own) > KEPT
        else ((whole, len(own)),)
        for name, own in asked.items()
    }
    total = sum(len(some.images) * most for own in rounds.values() for some, most in own)
    report: OnProgress = on_progress or (lambda share: None)
    done = 0
    refused: dict[str, dict[str, InputError]] = {name: {} for name in asked}

    def tried(candidate: Candidate, material: Material) -> Tried | None:
        """Return what was measured; nothing if the model cannot do it."""
        nonlocal done
        start, size = done, len(material.images)
        done += size
        try:
            found = _tried(candidate, material, grid, lambda s: report((start + size * s) / total))
        except InputError as error:
            refused[candidate.method][candidate.label] = error
            return None
        if on_tried is not None:
            on_tried(found)
        return found

    best: dict[str, Method] = {}
    for name, own in asked.items():
        left, found = own, list[Tried]()
        for material, most in rounds[name]:
            found = [each for one in left[:most] if (each := tried(one, material))]
            found.sort(key=lambda each: each.method.rank)
            left = [each.candidate for each in found]
        if found:
            best[name] = found[0].method
    report(1.0)
    for name, own in refused.items():
        for error in list(own.values())[:1]:
            what = f"{name} under {listed(list(own), shown=2)}"
            warnings.warn(f"not possible with this model: {what}: {error}", stacklevel=2)
    if not best:
        raise InputError(
            "methods",
            expected="one that is possible with this model",
            got=quoted(asked),
            do="name others, or other samplings",
        )
    pipeline.methods = Methods(
        model=Methods.digest(pipeline.denoiser, pipeline.judge),
        images=every,
        seed=seed,
        data=dict(data or {}),
        criterion="distance" if truth is None else "change",
        measured=tuple(grid),
        methods=best,
    )
    return pipeline.methods


def _tried(
    candidate: Candidate, material: Material, grid: Sequence[float], on_progress: OnProgress
) -> Tried:
    """Return what was measured of a candidate, now or before."""
    key = [material.about, repr(candidate.guidance), candidate.sampling, list(grid), __version__]
    entry = None if material.store is None else material.store.get(*key)
    if entry is None:
        entry = {"numbers": _measured(candidate, material, grid, on_progress)}
        if material.store is not None:
            material.store.put(entry, *key)
    on_progress(1.0)
    names, numbers = list(material.targets), entry["numbers"].T.tolist()
    weights, errors, distances, rows, at_end = numbers[:3], *numbers[3:]
    estimates = (WeightEstimate(weight=w, low=a, high=b) for w, a, b in zip(*weights, strict=True))
    method = Method(
        guidance=repr(with_weights(candidate.guidance, dict.fromkeys(names, 1.0))),
        variant=candidate.variant,
        sampling=candidate.sampling,
        published=candidate.published,
        weights=dict(zip(names, estimates, strict=True)),
        errors=dict(zip(names, errors, strict=True)),
        distances=dict(zip(names, distances, strict=True)),
        rows=fmean(rows),
        at_end=tuple(compress(names, at_end)),
    )
    return Tried(candidate, len(material.images), method)


def _measured(
    candidate: Candidate, material: Material, grid: Sequence[float], on_progress: OnProgress
) -> Float[Tensor, "attribute number"]:
    """Calibrate a candidate, and measure its answers at the calibrated weights."""
    sampling = as_sampling(candidate.sampling)
    rule, weights = checked_search(candidate.guidance, sampling, grid, material.pipeline.space)
    measurement = material.measurement(rule, sampling)
    found = material.calibration(measurement, weights, lambda s: on_progress(_CALIBRATING * s))
    chosen = {name: [own.weight] for name, own in found.attributes.items()}
    cells = measurement.cells(chosen, lambda s: on_progress(_CALIBRATING + (1 - _CALIBRATING) * s))
    numbers: list[list[float]] = []
    for name, own in found.attributes.items():
        cell = cells[name][own.weight]
        _, missed, changed = cell.errors.sum(axis=0)
        distance = cell.distances.mean()
        error = missed / max(changed, 1e-9) if name in material.true else distance
        numbers.append([own.weight, own.low, own.high, error, distance, cell.rows.mean()])
        numbers[-1].append(own.is_at_end)
    return torch.tensor(numbers, dtype=torch.float64)
