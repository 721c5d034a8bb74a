"""The loops that anybody would write first, and that ours is compared with.

They share the network and nothing else with the package: no plan, no predictor, no solver. Ours
must give their images.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import torch
from torch import Tensor

from fcfg.bench.bench_model import Question
from fcfg.diffusion.denoiser import Denoiser
from fcfg.diffusion.networks import UNet
from fcfg.sampling import time_grid

Run: TypeAlias = Callable[[], Tensor]


@dataclass(frozen=True, eq=False)
class Given:
    """A question as tensors on the device."""

    denoiser: Denoiser
    x: Tensor  #: images
    factual: Tensor  #: condition
    counterfactual: list[Tensor]  #: nothing, then what each group keeps
    weights: list[float]
    times: tuple[int, ...]  #: ascending

    @classmethod
    def of(cls, question: Question) -> Given:
        """Embed the attributes, and put the weights into channels-last memory."""
        subject = question.subject
        pipeline = subject.fresh()
        denoiser, network = pipeline.denoiser, pipeline.denoiser.network
        assert isinstance(network, UNet)
        network.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue] # torch's overloads omit it
        network.memory_format = torch.channels_last
        action = pipeline.act(question.attributes, question.do)
        groups, times = question.groups, time_grid(denoiser.schedule, question.steps)
        table = question.guidance.table(question.named, times[::-1], denoiser.schedule)
        keep = torch.tensor(groups.mask(pipeline.space.names), device=subject.device)
        with torch.no_grad():
            factual, asked = (
                denoiser.condition(table) for table in (question.attributes, action.attributes)
            )
            masked = [denoiser.embedder.masked(asked, row[None]) for row in keep]
        return cls(
            denoiser,
            question.images.to(subject.device, denoiser.state_dtype),
            factual,
            [torch.zeros_like(asked), *masked],
            table.weights[0].tolist(),
            times,
        )


def batched(given: Given) -> Tensor:
    """Counterfactuals by DDIM, all conditions of a step in one call."""
    conditions = torch.cat(given.counterfactual)

    def noises(x: Tensor, t: int) -> list[Tensor]:
        rows = x.repeat(len(given.counterfactual), 1, 1, 1)
        answer = given.denoiser(rows, _times(rows, t), conditions)
        return list(answer.chunk(len(given.counterfactual)))

    return _loop(given, noises)


def separate(given: Given) -> Tensor:
    """Counterfactuals by DDIM, a call for each condition of a step."""

    def noises(x: Tensor, t: int) -> list[Tensor]:
        return [given.denoiser(x, _times(x, t), c) for c in given.counterfactual]

    return _loop(given, noises)


@torch.no_grad()
def _loop(given: Given, noises: Callable[[Tensor, int], list[Tensor]]) -> Tensor:
    alpha, x = given.denoiser.schedule.alpha.tolist(), given.x
    for t, s in pairwise(given.times):
        eps = given.denoiser(x, _times(x, t), given.factual)
        x = _ddim(x, eps, alpha[t], alpha[s])
    for t, s in pairwise(given.times[::-1]):
        x = _ddim(x, guided(noises(x, t), given.weights), alpha[t], alpha[s])
    return x.cpu()


def guided(noises: list[Tensor], weights: list[float]) -> Tensor:
    """The rule of FCFG.

    >>> guided([torch.tensor(1.0), torch.tensor(2.0), torch.tensor(0.0)], [3.0, 1.5])
    tensor(2.5000)
    """
    null, *groups = noises
    eps = null
    for weight, group in zip(weights, groups, strict=True):
        eps = eps + weight * (group - null)
    return eps


def _times(x: Tensor, t: int) -> Tensor:
    return torch.full((len(x),), max(t, 1), device=x.device)


def _ddim(x: Tensor, eps: Tensor, alpha_t: float, alpha_s: float) -> Tensor:
    clean = (x - (1 - alpha_t) ** 0.5 * eps) / alpha_t**0.5
    return alpha_s**0.5 * clean + (1 - alpha_s) ** 0.5 * eps
