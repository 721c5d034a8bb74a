"""The optimiser of a part: its rate, its moments in a checkpoint, and the average of weights."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import get_ema_multi_avg_fn

from fcfg.support.hashing import stream_seed
from fcfg.training.objectives import AnyObjective
from fcfg.training.sections import Optimisation
from fcfg.training.shards import local, placed


@dataclass(frozen=True)
class Course:
    """Length and optimisation of one part of a run."""

    part: str
    seed: int
    steps: int
    settings: Optimisation

    def rate_at(self, step: int) -> float:
        """Return the learning rate of a step, from 0."""
        peak, warmup = self.settings.learning_rate, self.settings.warmup
        if step < warmup:
            return peak * (step + 1) / warmup
        if self.settings.decay == "constant":
            return peak
        share = (step - warmup) / max(1, self.steps - warmup)
        return peak * 0.5 * (1 + math.cos(math.pi * min(1.0, share)))

    def stream(self, *parts: int | str) -> int:
        """Return the seed of random numbers of this part."""
        return stream_seed(self.seed, self.part, *parts)


def optimiser_for(objective: AnyObjective, settings: Optimisation) -> torch.optim.AdamW:
    """Return Adam with decoupled weight decay, fused on a GPU.

    The paper says Adam with a weight decay of 1e-4. In the gradient of the loss, which is a mean
    over pixels, such a decay outweighs everything the condition passes through: after some
    thousand steps the network ignores the condition. docs/training.md has numbers.
    """
    groups = objective.parameter_groups()
    return torch.optim.AdamW(
        groups,
        settings.learning_rate,
        betas=settings.betas,
        weight_decay=settings.weight_decay,
        fused=groups[0]["params"][0].device.type == "cuda",
    )


def optimiser_tensors(optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return the moments of an optimiser, by the position of their parameter."""
    state = optimiser.state_dict()["state"]
    return {f"{p}.{name}": tensor for p, entry in state.items() for name, tensor in entry.items()}


def fill_optimiser(optimiser: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Load the result of :func:`optimiser_tensors`.

    The moments get the memory layout of their parameter, which files do not store and fused
    optimisers require, and its shards.
    """
    parameters = [parameter for group in optimiser.param_groups for parameter in group["params"]]
    state: dict[int, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        position, name = key.split(".", 1)
        parameter = parameters[int(position)]
        if tensor.shape == parameter.shape:
            tensor = placed(tensor, parameter)
        state.setdefault(int(position), {})[name] = tensor
    optimiser.load_state_dict({**optimiser.state_dict(), "state": state})


class MovingAverage:
    r"""An exponential moving average of weights, with a warm-up of its decay.

    .. math:: \bar\theta \leftarrow d_n \bar\theta + (1 - d_n)\, \theta,
        \qquad d_n = \min\bigl(d, \tfrac{1 + n}{10 + n}\bigr)

    The parameters of both modules must stay the same objects.

    Args:
        module: Module that is trained.
        average: Copy of it that gets the averaged weights.
        decay: Decay :math:`d`.
    """

    def __init__(self, module: nn.Module, average: nn.Module, decay: float) -> None:
        self.module, self._decay = average, decay
        # These are listed once, which takes longer than averaging.
        self._current = [local(p.detach()) for p in module.parameters()]
        self._average = [local(p.detach()) for p in average.parameters()]

    def update(self, step: int) -> None:
        """Add the weights after a step, from 0."""
        decay = min(self._decay, (1 + step) / (10 + step)) if step else 0.0
        get_ema_multi_avg_fn(decay)(self._average, self._current, step)
