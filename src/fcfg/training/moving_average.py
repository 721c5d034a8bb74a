"""The moving average of weights that a training publishes."""

from __future__ import annotations

from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn


class MovingAverage:
    r"""An exponential moving average of weights, with a warm-up of its decay.

    .. math:: \bar\theta \leftarrow d_n \bar\theta + (1 - d_n)\, \theta,
        \qquad d_n = \min\bigl(d, \tfrac{1 + n}{10 + n}\bigr)

    Args:
        module: Module whose weights are averaged; its parameters must stay the same objects.
        decay: d, the limit of :math:`d_n`.
    """

    def __init__(self, module: nn.Module, decay: float) -> None:
        self._model = AveragedModel(module)
        self._decay = decay
        self._current = [p.detach() for p in module.parameters()]
        self._average = [p.detach() for p in self._model.module.parameters()]

    @property
    def module(self) -> nn.Module:
        """The module with averaged weights."""
        return self._model.module

    def update(self, step: int) -> None:
        """Add the weights after a step, from 0.

        The lists of parameters are built once: building them takes longer than averaging.
        """
        decay = min(self._decay, (1 + step) / (10 + step)) if step else 0.0
        get_ema_multi_avg_fn(decay)(self._average, self._current, step)
