"""Measuring images: the judge, the networks of LPIPS and FID, and the rows they fill.

Where a data set says how to measure an attribute, the measured value replaces what the judge
reads; Morpho-MNIST does so for thickness and intensity.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from fcfg.answers import Answer, Block
from fcfg.causal.attributes import AttributeSpace, Continuous, Table
from fcfg.datasets.base import Measure
from fcfg.datasets.portraits import Portraits
from fcfg.datasets.registry import measures_of
from fcfg.evaluation.result_schema import JSON
from fcfg.generation.results import values_of
from fcfg.judge import AttributeJudge, Reading
from fcfg.metrics import (
    LPIPS,
    PIXEL_RANGE,
    Inception,
    Missing,
    find_inception,
    find_lpips,
    image_errors,
    image_mae,
)
from fcfg.metrics.lpips import SMALLEST
from fcfg.model import AnyModel
from fcfg.support.errors import InputError
from fcfg.support.hashing import digest_of

THRESHOLD = 0.05  # a pixel truly changes if the truth differs from the factual image by more
_BATCH = 256  # images per call of LPIPS


@dataclass(frozen=True, eq=False)
class Evaluators:
    """The networks that read and compare images."""

    judge: AttributeJudge
    lpips: LPIPS | Missing
    inception: Inception | Missing | None = None  #: None if the experiment does not measure FID
    measures: Mapping[str, Measure] = field(default_factory=dict[str, Measure])
    """Continuous attributes that are measured instead of read by the judge."""

    @property
    def about(self) -> JSON:
        """The networks and their weights, for a header."""
        about: JSON = {
            "mae": {"range": PIXEL_RANGE},
            "judge": {"width": self.judge.network.config.width, "digest": digest_of(self.judge)},
        }
        for name, network in (("lpips", self.lpips), ("inception", self.inception)):
            if network is not None:
                is_missing = isinstance(network, Missing)
                about[name] = {"missing": str(network)} if is_missing else dict(network.about)
        if self.measures:
            about["measured"] = dict.fromkeys(self.measures, "from pixels")
        return about

    def read(self, images: Float[Tensor, "image channel *size"]) -> Reading:
        """Read the attributes of images, and measure those that can be, within their ranges."""
        reading = self.judge.read(images)
        measured: Table = {}
        for name, measure in self.measures.items():
            attribute = self.judge.space[name]
            assert isinstance(attribute, Continuous), "find_evaluators takes no others"
            measured[name] = measure(images).clip(attribute.low, attribute.high)
        return replace(
            reading, attributes=reading.attributes | measured, scores=reading.scores | measured
        )

    @torch.no_grad()
    def distances(
        self,
        images: Float[Tensor, "image channel *size"],
        others: Float[Tensor, "image channel *size"],
    ) -> list[dict[str, float | None]]:
        """Return MAE and, of pictures, LPIPS between images, pair by pair."""
        lpips: list[float | None] = [None] * len(images)
        if isinstance(self.lpips, LPIPS) and images.ndim == 4:
            device = next(self.lpips.parameters()).device
            pairs = zip(images.split(_BATCH), others.split(_BATCH), strict=True)
            lpips = [d for a, b in pairs for d in self.lpips(a.to(device), b.to(device)).tolist()]
        mae = image_mae(images, others).tolist()
        return [{"mae": m, "lpips": p} for m, p in zip(mae, lpips, strict=True)]

    def features(
        self, images: Float[Tensor, "image channel *size"], reading: Reading
    ) -> dict[str, Float[np.ndarray, "image feature"]]:
        """Return the features that Fréchet distances are computed from, by network."""
        features = {"judge": reading.features}
        if isinstance(self.inception, Inception) and images.ndim == 4:
            features["inception"] = self.inception.features(images).astype(np.float32)
        return features


def judge_of(pipeline: AnyModel) -> AttributeJudge:
    """Return the judge of a pipeline; refuse a pipeline without one."""
    if isinstance(pipeline.judge, AttributeJudge):
        return pipeline.judge
    raise InputError(
        "model",
        expected="one with a judge, which reads attributes from images",
        got="none",
        do="train it with 'fcfg train CONFIG --part judge'",
    )


def find_evaluators(
    pipeline: AnyModel,
    lpips: Path | None = None,
    inception: Path | None = None,
    *,
    fid: bool = False,
    size: int | None = None,
    judge: AttributeJudge | None = None,
) -> Evaluators:
    """Return a judge, and the networks whose weights are on this machine.

    Args:
        pipeline: The model, on the device that measures.
        lpips: Weights of LPIPS; see :func:`fcfg.metrics.find_lpips`.
        inception: Weights of the network of FID.
        fid: Whether to measure FID.
        size: Height or width of the images, the smaller one; LPIPS needs some pixels.
        judge: Judge of another model of the same attributes, to compare models by one judge.
    """
    device = pipeline.device
    judge = judge_of(pipeline) if judge is None else judge.to(device)
    if judge.space != pipeline.space:
        raise InputError(
            "judge",
            expected=f"one of the attributes of the model, {list(pipeline.space.names)}",
            got=f"one of {list(judge.space.names)}, or of other values",
            do="choose the judge of a model of the same data",
        )
    least = f"it takes images of at least {SMALLEST} by {SMALLEST} pixels"
    too_small = size is not None and size < SMALLEST
    # A file that is given is read even where it is of no use: one without weights is refused.
    found = Missing("LPIPS", "") if too_small and lpips is None else find_lpips(lpips)
    perceptual = Missing("LPIPS", least) if too_small else found
    network = find_inception(inception) if fid or inception is not None else None
    for found in (perceptual, network):
        if isinstance(found, torch.nn.Module):
            found.to(device)
    format = pipeline.provenance.get("training", {}).get("data", {}).get("format")
    continuous = {a.name for a in pipeline.space if isinstance(a, Continuous)}
    measures = {name: m for name, m in measures_of(format).items() if name in continuous}
    return Evaluators(judge, perceptual, network, measures)


@dataclass(frozen=True, eq=False)
class Truth:
    """The true counterfactuals of all images of a drawn world."""

    portraits: Portraits
    reading: Reading  #: what the judge reads from them


def real_entries(
    block: Block, reading: Reading, unrelated: Sequence[float | None], space: AttributeSpace
) -> Iterator[JSON]:
    """Yield the entries of factual images."""
    columns = (_values(block.attributes, space), _scores(reading, space), unrelated)
    for name, attributes, scores, distance in zip(block.names, *columns, strict=True):
        about = {"kind": "real", "image": name, "attributes": attributes}
        yield {**about, **scores, "unrelated": distance}


def row_entries(
    block: Block,
    answer: Answer,
    reading: Reading,
    truth: Truth | None,
    evaluators: Evaluators,
    space: AttributeSpace,
) -> Iterator[JSON]:
    """Yield the rows of a block of images under one question."""
    (do, guidance), nothing = answer.question.key, [None] * len(block.names)
    images = answer.pair.images.float()
    reversal, fresh = (
        nothing if back is None else evaluators.distances(back.images.float(), block.images)
        for back in (answer.back, answer.fresh)
    )
    columns = zip(
        block.names,
        _values(answer.pair.attributes, space),
        _scores(reading, space),
        evaluators.distances(images, block.images),
        reversal,
        fresh,
        nothing if truth is None else _errors(truth, images, block, space),
        answer.pair.spent,
        strict=True,
    )
    for name, target, scores, change, back_error, anew, true_error, evaluations in columns:
        about = {"kind": "row", "do": do, "guidance": guidance, "image": name, "target": target}
        back = {"reversal": back_error}
        if not do and back_error is not None:
            back = {"reversal": None, "repeated": back_error}
        elif anew is not None:
            back["fresh"] = anew
        cost = {"evaluations": evaluations, "seconds": round(answer.seconds, 4)}
        yield {**about, **scores, "change": change, **back, "truth": true_error, **cost}


def _errors(truth: Truth, images: Tensor, block: Block, space: AttributeSpace) -> list[JSON]:
    portraits, rows = truth.portraits, block.rows
    errors = image_errors(images, portraits.images[rows], block.images, threshold=THRESHOLD)
    targets = {name: column[rows] for name, column in portraits.attributes.items()}
    factors = truth.reading.factors
    return [
        {name: float(column[i]) for name, column in vars(errors).items()}
        | {"factors": {name: float(c[row]) for name, c in factors.items()}, "target": target}
        for i, (row, target) in enumerate(zip(rows, _values(targets, space), strict=True))
    ]


def _scores(reading: Reading, space: AttributeSpace) -> list[JSON]:
    """Return scores and factors as JSON, image by image."""
    columns = {name: reading.scores[name].tolist() for name in space.names}
    factors = {name: column.tolist() for name, column in reading.factors.items()}
    return [
        {
            "scores": {name: column[row] for name, column in columns.items()},
            "factors": {name: column[row] for name, column in factors.items()},
        }
        for row in range(len(reading.features))
    ]


def _values(table: Table, space: AttributeSpace) -> list[JSON]:
    return [dict(values_of(space, table, row)) for row in range(len(table[space.names[0]]))]
