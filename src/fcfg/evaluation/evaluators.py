"""What an evaluation measures with: the judge, and the networks of LPIPS and FID."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from fcfg.causal.attributes import AttributeSpace, Categorical, Table
from fcfg.evaluation.result_files import JSON
from fcfg.judge import AttributeJudge, Reading
from fcfg.metrics import (
    LPIPS,
    PIXEL_RANGE,
    Inception,
    Missing,
    find_inception,
    find_lpips,
    image_mae,
)
from fcfg.metrics.lpips import SMALLEST
from fcfg.pipeline.counterfactual import CounterfactualPipeline
from fcfg.support.errors import InputError
from fcfg.support.hashing import digest_of

_BATCH = 256  # images at once, for networks that measure


class _TooSmall(Missing):
    """Images that a metric is not for, whatever weights are there."""

    def __str__(self) -> str:
        return f"no {self.name}: {self.how}"


@dataclass(frozen=True, eq=False)
class Instruments:
    """Reads and compares images."""

    judge: AttributeJudge
    lpips: LPIPS | Missing
    inception: Inception | Missing | None = None  #: None where nobody asked for FID

    @property
    def about(self) -> JSON:
        """Which networks with which weights, as JSON."""
        about: JSON = {
            "mae": {"range": PIXEL_RANGE},
            "judge": {"width": self.judge.network.config.width, "digest": digest_of(self.judge)},
        }
        for name, network in (("lpips", self.lpips), ("inception", self.inception)):
            if network is not None:
                missing = isinstance(network, Missing)
                about[name] = {"missing": str(network)} if missing else dict(network.about)
        return about

    def distances(
        self,
        images: Float[Tensor, "image channel height width"],
        others: Float[Tensor, "image channel height width"],
    ) -> list[dict[str, float | None]]:
        """MAE and LPIPS between images, pair by pair."""
        mae = image_mae(images, others)
        lpips = (
            [None] * len(images)
            if isinstance(self.lpips, Missing)
            else self._lpips(images, others)
        )
        return [{"mae": m, "lpips": p} for m, p in zip(mae.tolist(), lpips, strict=True)]

    @torch.no_grad()
    def _lpips(self, images: Tensor, others: Tensor) -> list[float]:
        assert isinstance(self.lpips, LPIPS)
        device = next(self.lpips.parameters()).device
        pairs = zip(images.split(_BATCH), others.split(_BATCH), strict=True)
        return [
            value for a, b in pairs for value in self.lpips(a.to(device), b.to(device)).tolist()
        ]

    def features(
        self, images: Float[Tensor, "image channel height width"], reading: Reading
    ) -> dict[str, Float[np.ndarray, "image feature"]]:
        """What Fréchet distances are made of."""
        features = {"judge": reading.features}
        if isinstance(self.inception, Inception):
            features["inception"] = self.inception.features(images).astype(np.float32)
        return features


def judge_of(pipeline: CounterfactualPipeline) -> AttributeJudge:
    """The judge of a pipeline, or a refusal."""
    if isinstance(pipeline.judge, AttributeJudge):
        return pipeline.judge
    raise InputError(
        "model",
        expected="one with a judge, which reads attributes from images",
        got="none",
        do="train it with 'fcfg train CONFIG --part judge'",
    )


def find_instruments(
    pipeline: CounterfactualPipeline,
    lpips: Path | None = None,
    inception: Path | None = None,
    *,
    fid: bool = False,
    size: int | None = None,
) -> Instruments:
    """The judge of a pipeline, and the weights that are found on this machine.

    Args:
        pipeline: On its device, where everything is measured.
        lpips: Where the weights of LPIPS are; see :func:`fcfg.metrics.find_lpips`.
        inception: Where those of FID are.
        fid: Whether FID is wanted.
        size: Of the images, their height or width; too small ones have no LPIPS.
    """
    judge, device = judge_of(pipeline), pipeline.denoiser.device
    least = f"it takes images of at least {SMALLEST} by {SMALLEST} pixels"
    too_small = size is not None and size < SMALLEST
    perceptual = _TooSmall("LPIPS", least) if too_small else find_lpips(lpips)
    if isinstance(perceptual, LPIPS):
        perceptual.to(device)
    if not fid and inception is None:
        return Instruments(judge, perceptual)
    network = find_inception(inception)
    if isinstance(network, Inception):
        network.to(device)
    return Instruments(judge, perceptual, network)


def readings(reading: Reading, space: AttributeSpace) -> list[JSON]:
    """Scores and factors, image by image, as JSON."""
    columns = {name: reading.scores[name].tolist() for name in space.names}
    factors = {name: column.tolist() for name, column in reading.factors.items()}
    return [
        {
            "scores": {name: column[row] for name, column in columns.items()},
            "factors": {name: column[row] for name, column in factors.items()},
        }
        for row in range(len(reading.features))
    ]


def values(table: Table, space: AttributeSpace) -> list[JSON]:
    """Attributes, image by image, as JSON; levels by their names."""
    columns: dict[str, Sequence[Any]] = {
        attribute.name: [attribute.levels[code] for code in table[attribute.name]]
        if isinstance(attribute, Categorical)
        else table[attribute.name].tolist()
        for attribute in space
    }
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
