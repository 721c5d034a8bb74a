"""Thresholds from images that are in order: real ones, under their own attributes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import ArrayLike
from torch import Tensor

from fcfg.causal.attributes import Continuous, Table
from fcfg.guidance import Guidance
from fcfg.judge import AttributeJudge
from fcfg.pipeline.anchoring import find_anchor
from fcfg.pipeline.counterfactual import CounterfactualPipeline
from fcfg.pipeline.records import Action
from fcfg.pipeline.thresholds import Thresholds, way_back_guidance
from fcfg.sampling import SamplingConfig, SamplingLike, as_sampling
from fcfg.support.errors import check_integer
from fcfg.support.images import ImagesLike, read_images
from fcfg.support.progress import OnProgress, Progress
from fcfg.trust.signals import loss_signals, read_against, surprise

#: Share of ordinary images that each kind of signal may exceed: few false alarms, even together.
SHARE = 0.01
#: Number of images that the network works on; at least 99 are needed for a share of 1 %.
COUNT = 256


def trust_thresholds(
    pipeline: CounterfactualPipeline,
    images: ImagesLike,
    attributes: Mapping[str, ArrayLike],
    *,
    guidance: Guidance | None = None,
    sampling: SamplingLike = "default",
    count: int = COUNT,
    share: float = SHARE,
    data: Mapping[str, Any] | None = None,
    batch_size: int = 256,
    on_progress: OnProgress | None = None,
) -> Thresholds:
    """Measure how large the signals of trust are on images that the model was not trained on.

    Every kind of signal gets a limit that a further image of the same distribution exceeds with a
    probability of at most ``share``: of n values in order, the one at ⌈(n + 1)(1 - share)⌉. With
    too few images for that (fewer than 99, at 1 %) it is the largest. Kinds with several numbers,
    such as one per attribute, share the probability.

    - Losses and readings are those of the images themselves, under their own attributes.
    - An attribute that must not change may move as far as real images of the same value differ
      from their mean.
    - The way back is that of the images under their own attributes, with the guidance of
      interventions on one attribute, which take turns.

    The pipeline does not change: set ``pipeline.thresholds`` to the result, and save it.

    Args:
        pipeline: The model.
        images: Validation images, as in :meth:`fcfg.CounterfactualPipeline.counterfactual`.
        attributes: Column of factual values for every attribute.
        guidance: Guidance of the way back; by default that of the model.
        sampling: Solver, grid and steps of the way back.
        count: Largest number of images that the network works on, the first ones; the judge reads
            all of them.
        share: Share of ordinary images that each kind of signal may exceed.
        data: Description of the images, for the record.
        batch_size: Largest number of network rows per call.
        on_progress: Callback invoked with the share that is done.
    """
    denoiser, space = pipeline.denoiser, pipeline.space
    x = read_images(images, channels=denoiser.channels, size=denoiser.size)
    check_integer("images", len(x), 2, 10**9, do="256 are enough")
    table, progress = space.parse(attributes), Progress(1 + len(space), on_progress)
    used = {
        name: pipeline.choose_guidance([name], guidance, sampling=sampling) for name in space.names
    }
    anchored = any(rule.anchor for rule in used.values())
    chosen = as_sampling(sampling, pipeline.default_sampling(anchored))
    first, few = x[:count], {name: column[:count] for name, column in table.items()}
    losses = loss_signals(denoiser, first, few, batch_size)
    progress.advance(1)
    way_back: dict[str, list[Tensor]] = {}
    for turn, (name, rule) in enumerate(used.items()):
        rows = slice(turn, None, len(used))
        own = {column: values[rows] for column, values in few.items()}
        for signal, column in _way_back(
            pipeline, first[rows], own, name, rule, chosen, batch_size
        ):
            way_back.setdefault(signal, []).append(column)
        progress.advance(1)
    return Thresholds(
        model=Thresholds.digest(denoiser, pipeline.judge),
        sampling=str(chosen),
        guidance=tuple(sorted({str(way_back_guidance(rule)) for rule in used.values()})),
        share=share,
        images=len(first),
        references=len(x),
        data=dict(data or {}),
        limits={
            **_loss_limits(losses, share),
            **_reading_limits(pipeline, x, table, share),
            **{name: upper_limit(torch.cat(parts), share) for name, parts in way_back.items()},
        },
    )


def upper_limit(values: Float[Tensor, "batch"], share: float) -> float:
    """Return a limit that a further value exceeds with a probability of at most ``share``.

    >>> upper_limit(torch.arange(1.0, 100.0), 0.05)
    95.0

    Args:
        values: Values of the same distribution.
        share: The probability; with too few values for it, the limit is the largest of them.
    """
    rank = math.ceil((len(values) + 1) * (1 - share) - 1e-9)
    return values.sort().values[min(rank, len(values)) - 1].item()


def _loss_limits(losses: dict[str, Tensor], share: float) -> dict[str, float]:
    """Return limits that lie equally many standard deviations above the means."""
    columns = torch.stack([*losses.values()], dim=1)
    mean, sd = columns.mean(dim=0), columns.std(dim=0)
    most = upper_limit(((columns - mean) / sd).amax(dim=1), share)
    return dict(zip(losses, (mean + most * sd).tolist(), strict=True))


def _reading_limits(
    pipeline: CounterfactualPipeline, images: Tensor, table: Table, share: float
) -> dict[str, float]:
    limits: dict[str, float] = {}
    if not isinstance(pipeline.judge, AttributeJudge):
        return limits
    reading, share = pipeline.judge.read(images), share / len(pipeline.space)
    for attribute in pipeline.space:
        name = attribute.name
        read = read_against(attribute, reading, table)
        unsure = upper_limit(surprise(attribute, read), share)
        limits |= {f"given {name}": unsure, f"asked {name}": unsure}
        for value in [None] if isinstance(attribute, Continuous) else np.unique(table[name]):
            same = slice(None) if value is None else torch.from_numpy(table[name] == value)
            read[same] -= read[same].mean()
        limits[f"moved {name}"] = upper_limit(read.abs(), share)
    return limits


def _way_back(
    pipeline: CounterfactualPipeline,
    images: Tensor,
    table: Table,
    target: str,
    guidance: Guidance,
    sampling: SamplingConfig,
    batch_size: int,
) -> Iterator[tuple[str, Tensor]]:
    """Yield the signals of going back to the images themselves, by name."""
    if not len(images):  # fewer images than attributes
        return
    there = pipeline.abduct(
        images, table, sampling=sampling, anchor=guidance.anchor, batch_size=batch_size
    )
    if there.trajectory.residual is not None:
        yield "residual", there.trajectory.residual
    if guidance.anchor:
        groups = guidance.partition(pipeline.graph, [target])
        yield (
            "correction",
            find_anchor(pipeline.denoiser, there, guidance.factual, groups, batch_size).size,
        )
    else:
        same = pipeline.predict(
            there, Action(table, (target,), 0), guidance, batch_size=batch_size
        )
        yield "composition", (same.images - images).abs().mean(dim=(1, 2, 3))
