"""A U-Net all of which is at work, asked with and without what makes it faster."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import Tensor, nn

from evaluations import SIZE, tiny_model
from fcfg import Counterfactual, CounterfactualPipeline, Guidance
from fcfg.datasets import portraits
from place import DEVICE, anywhere

pytestmark = [
    anywhere,
    # Importing the compiler, torch warns of itself; and where a CPU has no products of bf16.
    pytest.mark.filterwarnings("ignore:.*script_method.*:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:mkldnn_matmul failed:UserWarning"),
]


FCFG = Guidance.fcfg(affected=3.0, invariant=1.2)


def awake_model() -> CounterfactualPipeline:
    """A U-Net that nobody trained, all of which is at work."""
    pipeline = tiny_model(saved=True)
    generator = torch.Generator().manual_seed(1)
    for name, parameter in pipeline.denoiser.network.named_parameters():
        # Small answers: what nobody trained would let every error of rounding grow.
        scale = 0.0006 if name.startswith("head") else 0.2
        parameter.data = scale * torch.randn(parameter.shape, generator=generator)
    return pipeline.to(DEVICE)


def ask(pipeline: CounterfactualPipeline, count: int = 5, **options: object) -> Counterfactual:
    faces = portraits.sample(count, size=SIZE)
    asked = {"guidance": FCFG, "sampling": "ddim uniform 3"} | options
    return pipeline.counterfactual(faces.images, faces.attributes, {"smiling": 1}, **asked)


def questions(count: int) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(count, 3, SIZE, SIZE, generator=generator)
    t = torch.randint(1, 1000, (count,), generator=generator)
    c = torch.randn(count, 12, generator=generator)
    return x.to(DEVICE), t.to(DEVICE), c.to(DEVICE)


def distance(one: Counterfactual, other: Counterfactual) -> float:
    """The worst pixel, where one is the usual size of a pixel."""
    x, y = one.trajectory.x, other.trajectory.x
    return ((x - y).abs().max() / x.std()).item()


#: All of a compiled call but the compiler, which is not ours and takes half a minute.
without_the_compiler = partial(torch.compiler.set_stance, "force_eager")


class Counting(nn.Module):
    """Remembers how many rows it was asked for; above some, there is no memory."""

    def __init__(self, inner: nn.Module, most: int = 10**9) -> None:
        super().__init__()
        self.inner, self.most = inner, most
        self.asked: list[int] = []

    def forward(self, x: Tensor, t: Tensor, c: Tensor) -> Tensor:
        if len(x) > self.most:
            raise torch.OutOfMemoryError("no memory for that many rows")
        self.asked.append(len(x))
        return self.inner(x, t, c)
