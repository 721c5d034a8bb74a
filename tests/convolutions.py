"""Denoisers of one, two and three dimensions: two convolutions of that rank."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fcfg import AttributeSpace, Binary, CausalGraph, CounterfactualPipeline, StructuralCausalModel
from fcfg.diffusion import AttributeEmbedder, Denoiser, NoiseSchedule
from tiny import randomised

SPACE = AttributeSpace([Binary("a"), Binary("b")])
CONVOLUTIONS = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}


class Convolutions(nn.Module):
    """Two convolutions of a rank, between which the condition and the time are added."""

    def __init__(self, dimensions: int, channels: int, condition: int) -> None:
        super().__init__()
        convolution = CONVOLUTIONS[dimensions]
        self.first = convolution(channels, 8, 3, padding=1)
        self.bias = nn.Linear(condition + 1, 8)
        self.last = convolution(8, channels, 3, padding=1)

    def forward(self, x: Tensor, t: Tensor, c: Tensor) -> Tensor:
        bias = self.bias(torch.cat([c, t[:, None].to(c) / 100], dim=1))
        inner = self.first(x) + bias.view(*bias.shape, *[1] * (x.ndim - 2))
        return 0.03 * self.last(torch.tanh(inner))


def pipeline_of(network: nn.Module, dimensions: int, **options: Any) -> CounterfactualPipeline:
    torch.manual_seed(1)
    embedder = randomised(AttributeEmbedder(SPACE, width=4), 0.3)
    schedule = NoiseSchedule("linear", 100)
    options = {"channels": 2, "dimensions": dimensions} | options
    denoiser = Denoiser(network, embedder, schedule, **options).eval()
    scm = StructuralCausalModel(SPACE, CausalGraph({"a": [], "b": []}))
    values = np.arange(40) % 2
    scm.fit({"a": values, "b": values[::-1].copy()}, steps=3)
    return CounterfactualPipeline(denoiser, scm)


def convolutional(dimensions: int, **options: Any) -> CounterfactualPipeline:
    torch.manual_seed(0)
    return pipeline_of(
        Convolutions(dimensions, options.get("channels", 2), 8), dimensions, **options
    )
