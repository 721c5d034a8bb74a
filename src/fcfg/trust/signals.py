"""Signals: numbers that are large where a counterfactual should not be trusted.

``loss LEVEL``
    Distance from the manifold of images: logarithm of the denoising loss of the counterfactual
    under its attributes, with noise of that level.
``change``
    Mean absolute distance of the counterfactual from the picture.
``correction``, ``composition``
    What goes wrong on the way back under the factual attributes. If the prediction is anchored,
    the size of its correction (RMS over pixels); otherwise the mean absolute distance to the
    picture. Neither exists under drawn noise, whose corrections hold the noise itself.
``residual``
    How far the inversion is from a solution, for solvers that iterate.
``given NAME``, ``asked NAME``
    How little the judge reads the factual value in the picture, and the counterfactual value in
    the counterfactual: the log-odds against it, or the distance of a continuous value.
``moved NAME``
    How far the reading moved of an attribute that the intervention leaves alone: in log-odds, or
    in the unit of a continuous attribute.

An answer is doubted where a signal is above its limit. Beside that, the judge reads each attribute
intervened on. A value of a binary attribute is not reached if its probability is below a half, and
a level if another one is likelier. A continuous value is not reached if the reading is farther
from it than from the reading of the picture, and farther than the judge errs on the picture.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from fcfg.causal.attributes import AbstractAttribute, Categorical, Continuous, Table
from fcfg.diffusion.denoiser import Denoiser
from fcfg.judge import AttributeJudge, Reading, judged
from fcfg.metrics import level_scores
from fcfg.model import Action, AnyModel, Plan
from fcfg.model.thresholds import LEVELS, SURE, Thresholds
from fcfg.pipeline.batching import Batches, fetch
from fcfg.pipeline.records import Counterfactual
from fcfg.sampling import OnStep
from fcfg.support.hashing import stream_seed
from fcfg.support.images import ImagesLike, pixel_axes, read_images

_ROWS = 2 * len(LEVELS)  # network rows per image of the losses
SMALL_ERROR = 0.05  #: mean absolute, in units of [-1, 1]: hardly visible
_NO_YES = ["no", "yes"]
_KINDS = {
    "loss": "off the manifold",
    "change": "more changes than on validation images",
    "residual": "the inversion does not settle",
    "correction": "the prediction errs more than on validation images",
    "composition": "the picture itself is not reproduced",
    "given": "the judge does not read {name}={given} in the picture",
    "asked": "the judge does not read {name}={asked}",
    "moved": "{name} changes as well",
}


@dataclass(frozen=True, eq=False)
class Signals:
    """The signals of counterfactuals, by name; see :mod:`fcfg.trust.signals`."""

    values: dict[str, Float[Tensor, "batch"]] = field(repr=False)
    rows: int = 0  #: network rows per image that they took
    #: For each image the asked values that the judge does not read; empty without a judge.
    not_reached: list[dict[str, str]] = field(default_factory=list[dict[str, str]])

    @property
    def cost(self) -> dict[str, int]:
        """The network rows, for a record of costs; nothing if nothing was measured."""
        return {"trust": self.rows} if self.values else {}

    def of(self, image: int) -> dict[str, float]:
        """Return the signals of one image."""
        return {name: float(column[image]) for name, column in self.values.items()}


def measure_trust(
    pipeline: AnyModel,
    images: ImagesLike,
    pair: Counterfactual,
    *,
    batch_size: int = 256,
    on_step: OnStep | None = None,
) -> Signals:
    """Measure the signals of counterfactuals of factual images, by the model that made them.

    Where they are not anchored, the factual images are predicted as well, at the same cost;
    ``on_step`` is called after every step of that prediction.
    """
    there, answers = pair.abduction, pair.images.nan_to_num()
    factual = read_images(images, channels=pipeline.channels, dimensions=pipeline.dimensions)
    denoiser = cast(Denoiser, pipeline.image_model)
    losses = denoising_loss(denoiser, answers, pair.attributes, batch_size=batch_size)
    values = loss_signals(losses)
    values["change"], rows = _distance(answers, factual), _ROWS
    if there.trajectory.residual is not None:
        values["residual"] = there.trajectory.residual
    if pair.correction is None:
        same = pipeline.predict(
            there,
            replace(pair.action, attributes=there.attributes),
            pair.plan,
            batch_size=batch_size,
            on_step=on_step,
        )
        values["composition"] = _distance(same.images, factual)
        rows += max(same.trajectory.spent) - max(there.trajectory.spent)
    elif not there.noise_is_drawn:
        values["correction"] = pair.correction
    missed: list[dict[str, str]] = []
    if isinstance(pipeline.judge, AttributeJudge):
        before, after = pipeline.judge.read(factual), pipeline.judge.read(answers)
        missed = not_reached(pipeline, there.attributes, pair.action, before, after)
        affected = pipeline.graph.affected(pair.action.targets)
        for attribute in pipeline.space:
            name = attribute.name
            was = read_of(attribute, before, there.attributes)
            now = read_of(attribute, after, pair.attributes)
            values[f"given {name}"] = surprise(attribute, was)
            if name in affected:
                values[f"asked {name}"] = surprise(attribute, now)
            else:
                values[f"moved {name}"] = (now - was).abs()
    return Signals(values, rows, missed)


def _distance(images: Tensor, others: Tensor) -> Float[Tensor, "batch"]:
    return (images - others).abs().mean(dim=pixel_axes(images))


def denoising_loss(
    denoiser: Denoiser,
    images: Float[Tensor, "batch channel *size"],
    attributes: Table,
    *,
    batch_size: int = 256,
) -> Float[Tensor, "batch level"]:
    """Return the logarithm of the denoising loss of images, at each of the :data:`LEVELS`.

    All images get the same noise, with both signs, so that losses differ by the images alone. The
    condition are their attributes; in SA-DCG with semantics of the images.
    """
    generator = torch.Generator().manual_seed(stream_seed(0, "denoising loss"))
    shape = denoiser.state_shape(images.shape[2:])
    noise = torch.randn(len(LEVELS), *shape, generator=generator)
    schedule, device, dtype = denoiser.schedule, denoiser.device, denoiser.state_dtype
    batches = Batches(denoiser, batch_size)
    semantics = batches.semantics(images)
    times = torch.arange(1, schedule.steps + 1)
    strength = schedule.noise(times) / schedule.signal(times)
    probes = [
        (times[(strength - level).abs().argmin()], sign * eps)
        for level, eps in zip(LEVELS, noise, strict=True)
        for sign in (1, -1)
    ]

    def work(rows: slice, report: OnStep) -> Tensor:
        x = denoiser.encoded(images[rows])
        condition = batches.condition(attributes, semantics, rows)
        losses: list[Tensor] = []
        for t, eps in probes:
            eps = eps.to(device, dtype)
            signal, scale = (f(t).to(device, dtype) for f in (schedule.signal, schedule.noise))
            asked = signal * x + scale * eps, t.to(device).expand(len(x)), condition
            predicted = denoiser.noise(*asked)
            losses.append((predicted - eps).square().mean(dim=pixel_axes(x)))
        return fetch(torch.stack(losses, dim=1).unflatten(1, (-1, 2)).mean(dim=2).log())

    return torch.cat(batches.work(len(images), 1, work))


def loss_signals(
    losses: Float[Tensor, "batch level"],
) -> dict[str, Float[Tensor, "batch"]]:
    """Return the losses of images by the name of their signal."""
    return {f"loss {level}": column for level, column in zip(LEVELS, losses.T, strict=True)}


def read_of(
    attribute: AbstractAttribute, reading: Reading, table: Table
) -> Float[Tensor, "batch"]:
    """Return how clearly the values of an attribute are read, see :func:`fcfg.judge.judged`."""
    scores, values = reading.scores[attribute.name], table[attribute.name]
    return torch.from_numpy(judged(attribute, scores, values, SURE))


def surprise(attribute: AbstractAttribute, read: Float[Tensor, "batch"]) -> Float[Tensor, "batch"]:
    """Return how little a judge reads a value: log-odds against it, or the distance from it."""
    return read.abs() if isinstance(attribute, Continuous) else -read


def unchecked(thresholds: Thresholds | None, plan: Plan[Any]) -> str | None:
    """Return a sentence about what trust in an answer does not cover; None if all is checked."""
    if plan.sampling is None:
        return None
    if thresholds is None:
        return "Only gross errors are noticed: 'fcfg calibrate' makes thresholds of trust."
    if not thresholds.knows_way_back(plan.setting, plan.sampling):
        return (
            "The errors of the prediction are not checked: their thresholds are of other guidance "
            "or sampling."
        )
    return None


def reasons(
    signals: Mapping[str, float | None],
    limits: Mapping[str, float],
    factual: Mapping[str, object],
    counterfactual: Mapping[str, object],
) -> list[str]:
    """Return why an image should not be believed: each kind of signal above its limit, once.

    A picture that is not reproduced when nothing is asked is doubted without a limit, if the error
    is plain to see and more than half of the change. Signals that are not finite are None.
    """
    plain = max(2 * SMALL_ERROR, (signals.get("change") or 0.0) / 2)
    limits = {**limits, "composition": min(plain, limits.get("composition", plain))}
    found: list[str] = []
    for signal, value in signals.items():
        kind, _, name = signal.partition(" ")
        if signal in limits and (value is None or value > limits[signal]):
            given, asked = factual.get(name), counterfactual.get(name)
            found.append(_KINDS[kind].format(name=name, given=given, asked=asked))
    return list(dict.fromkeys(found))


def not_reached(
    model: AnyModel, factual: Table, action: Action, before: Reading | None, after: Reading | None
) -> list[dict[str, str]]:
    """Return the asked values that a judge does not read: for each image, words by attribute.

    An image has ``{"effusion": "reads 3 %, asked yes"}``, or nothing. Without readings of the
    pictures (``before``) and of the answers (``after``), nothing is claimed.
    """
    found: list[dict[str, str]] = [{} for _ in action.attributes[model.space.names[0]]]
    if before is None or after is None:
        return found
    for name in action.targets:
        asked, read = action.attributes[name], after.scores[name]
        attribute, words = model.space[name], model.words.get(name, _NO_YES)
        if isinstance(attribute, Continuous):
            own, shown = factual[name], before.scores[name]
            bound = np.maximum(np.abs(read - shown), np.abs(shown - own))
            is_missed = (asked != own) & (np.abs(read - asked) > bound)
            told, wanted = ([f"{value:.3g}" for value in values] for values in (read, asked))
        elif isinstance(attribute, Categorical):
            is_missed = level_scores(read, asked) < read.max(axis=1)
            told, wanted = (
                [attribute.value(code) for code in codes] for codes in (read.argmax(axis=1), asked)
            )
        else:
            is_missed = np.where(asked == 1, read, 1 - read) < 0.5
            of = "" if words == _NO_YES else f" {words[1]}"
            told = [f"{100 * share:.0f} %{of}" for share in read]
            wanted = [words[int(value)] for value in asked]
        for row in np.flatnonzero(is_missed).tolist():
            found[row][name] = f"reads {told[row]}, asked {wanted[row]}"
    return found
