"""Thresholds from images that are in order: real ones, under their own attributes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import ArrayLike
from torch import Tensor

from fcfg.answers import AnswerLoop, Question
from fcfg.causal.attributes import AbstractAttribute, Categorical, Column, Continuous, Table
from fcfg.guidance import Guidance
from fcfg.judge import AttributeJudge
from fcfg.model.thresholds import WAY_BACK, Thresholds, signal_ranges, way_back_guidance
from fcfg.pipeline.counterfactual import CounterfactualPipeline
from fcfg.pipeline.plans import chosen_sampling
from fcfg.sampling import SamplingLike
from fcfg.support.errors import InputError, check_integer, quoted
from fcfg.support.images import ImagesLike, image_keys
from fcfg.support.progress import OnProgress
from fcfg.support.tables import TableLike
from fcfg.trust.signals import denoising_loss, loss_signals, measure_trust, read_of, surprise

#: Share of ordinary images that each kind of signal may exceed: few false alarms, even together.
SHARE = 0.01
#: Share of the model's own answers that may be called off the manifold, where they are farther
#: from it than real images: otherwise every answer of a weak model would be.
WORST = 0.1
#: Number of images that the network works on; at least 99 are needed for a share of 1 %.
COUNT = 256


def trust_thresholds(
    pipeline: CounterfactualPipeline,
    images: ImagesLike,
    attributes: TableLike,
    *,
    guidance: Guidance | None = None,
    sampling: SamplingLike = "default",
    count: int = COUNT,
    data: Mapping[str, Any] | None = None,
    batch_size: int = 256,
    on_progress: OnProgress | None = None,
) -> Thresholds:
    """Measure how large the signals of trust are on images that the model was not trained on.

    Every kind of signal gets a limit that a further image of the same distribution exceeds with a
    probability of at most 1 %: of n values in order, the one at ⌈0.99 (n + 1)⌉. With
    too few images for that (fewer than 99) it is the largest. Kinds with several numbers,
    such as one per attribute, share the probability.

    - Losses and readings are those of the images themselves, under their own attributes. Where the
      model's own answers have larger losses, the limit is that of the worst tenth of them.
    - Change and way back are those of counterfactuals of the images, with the guidance of the
      model. One attribute is intervened on in each image; they take turns.
    - The reading of an attribute that must not change may move as far as in these counterfactuals,
      and not farther than real images of the same value are from their mean.

    The pipeline does not change: set ``pipeline.thresholds`` to the result, and save it.

    Args:
        pipeline: The model.
        images: Validation images, as in :meth:`fcfg.CounterfactualPipeline.counterfactual`.
        attributes: Column of factual values for every attribute.
        guidance: Guidance of the counterfactuals; by default that of the model.
        sampling: Solver, grid and steps of the counterfactuals.
        count: Largest number of images that the network works on, the first ones; the judge reads
            all of them.
        data: Description of the images, for the record.
        batch_size: Largest number of network rows per call.
        on_progress: Callback invoked with the share that is done.
    """
    denoiser, space = pipeline.denoiser, pipeline.space
    x = pipeline.read_images(images)
    check_integer("images", len(x), 2, 10**9, do="256 are enough")
    table = space.parse(attributes, len(x))
    used = {
        name: pipeline.plan([name], guidance, sampling=sampling).setting for name in space.names
    }
    anchored = any(rule.anchor for rule in used.values())
    drawn_noise = any(rule.drawn_noise for rule in used.values())
    chosen = chosen_sampling(sampling, pipeline.calibration, anchored, drawn_noise)
    first, few = x[:count], {name: column[:count] for name, column in table.items()}
    losses = loss_signals(denoising_loss(denoiser, first, few, batch_size=batch_size))
    report: OnProgress = on_progress or (lambda share: None)
    report(start := 1 / (1 + len(space)))
    keys, found = image_keys(first), dict[str, list[Tensor]]()

    def question(turn: int, name: str) -> Question:
        rows, column = slice(turn, None, len(used)), few[name].copy()
        column[rows] = space[name].parse(other_values(space[name], column[rows]))
        plan = pipeline.plan([name], used[name], sampling=chosen)
        return Question(name, plan, partial(pipeline.act, few, {name: column}, keys=keys))

    turns = range(min(len(used), len(first)))  # there may be fewer images than attributes
    questions = [question(turn, name) for turn, name in zip(turns, used, strict=False)]
    loop = AnswerLoop(
        pipeline,
        first,
        few,
        questions,
        keys=keys,
        blocks=[range(turn, len(first), len(used)) for turn in turns],
        batch_size=batch_size,
        on_progress=lambda share: report(start + (1 - start) * share),
    )
    for asked, block in zip(questions, loop, strict=True):
        for answer in block.answers([asked]):
            pair = answer.pair
            values = measure_trust(pipeline, block.images, pair, batch_size=batch_size).values
            values[f"change {asked.name}"] = values.pop("change")
            for signal, column in values.items():
                found.setdefault(signal, []).append(column)
    answers = {name: torch.cat(found[name]) for name in losses}
    limits = _loss_limits(losses, answers) | _reading_limits(pipeline, x, table)
    for signal, parts in found.items():
        limit = upper_limit(torch.cat(parts), SHARE)
        if signal.startswith("moved "):
            limits[signal] = min(limit, limits[signal])
        elif signal in WAY_BACK or signal.startswith("change "):
            limits[signal] = limit
    broken = [name for name, limit in limits.items() if not math.isfinite(limit)]
    if broken:
        got, do = f"NaN or infinity for {quoted(broken)}", "take more steps or smaller weights"
        raise InputError("thresholds of trust", expected="signals of finite size", got=got, do=do)
    ranges = signal_ranges(space)  # a limit beyond the largest value is like that value
    return Thresholds(
        model=Thresholds.digest(denoiser, pipeline.judge),
        sampling=str(chosen),
        guidance=tuple(sorted({str(way_back_guidance(rule)) for rule in used.values()})),
        share=SHARE,
        images=len(first),
        references=len(x),
        data=dict(data or {}),
        limits={name: min(limit, ranges[name][1]) for name, limit in limits.items()},
    )


def upper_limit(values: Float[Tensor, "batch"], share: float) -> float:
    """Return a limit that a further value exceeds with a probability of at most ``share``.

    >>> upper_limit(torch.arange(1.0, 100.0), 0.05)
    95.0
    """
    rank = math.ceil((len(values) + 1) * (1 - share) - 1e-9)
    return values.sort().values[min(rank, len(values)) - 1].item()


def _loss_limits(losses: Mapping[str, Tensor], answers: Mapping[str, Tensor]) -> dict[str, float]:
    """Return limits that lie equally many standard deviations above the means of real images."""
    real, other = (torch.stack([*own.values()], dim=1) for own in (losses, answers))
    mean, sd = real.mean(dim=0), real.std(dim=0).clamp(min=1e-9)  # of untrained networks
    most = max(
        upper_limit(((own - mean) / sd).amax(dim=1), part)
        for own, part in ((real, SHARE), (other, WORST))
    )
    return dict(zip(losses, (mean + most * sd).tolist(), strict=True))


def _reading_limits(
    pipeline: CounterfactualPipeline, images: Tensor, table: Table
) -> dict[str, float]:
    limits: dict[str, float] = {}
    if not isinstance(pipeline.judge, AttributeJudge):
        return limits
    reading, share = pipeline.judge.read(images), SHARE / len(pipeline.space)
    for attribute in pipeline.space:
        name = attribute.name
        read = read_of(attribute, reading, table)
        unsure = max(0.0, upper_limit(surprise(attribute, read), share))  # even odds, at least
        limits |= {f"given {name}": unsure, f"asked {name}": unsure}
        for value in [None] if isinstance(attribute, Continuous) else np.unique(table[name]):
            same = slice(None) if value is None else torch.from_numpy(table[name] == value)
            read[same] -= read[same].mean()
        limits[f"moved {name}"] = upper_limit(read.abs(), share)
    return limits


def other_values(attribute: AbstractAttribute, column: Column) -> ArrayLike:
    """Return values to ask for: the other one, the next level, or a far percentile."""
    if isinstance(attribute, Continuous):
        low, high = np.quantile(column, [0.1, 0.9])
        return np.where(high - column > column - low, high, low)
    if isinstance(attribute, Categorical):
        levels = attribute.levels
        return [levels[(int(code) + 1) % len(levels)] for code in column]
    return 1 - column
