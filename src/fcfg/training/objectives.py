"""What the two networks of a pipeline learn: a loss of a batch, and what it draws.

An objective is a module whose call is the loss, so that whatever wraps modules (data parallelism,
autocast) wraps the loss. Randomness is drawn for the whole batch of a step, whatever the number of
processes, and each takes its share.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from fcfg.diffusion.denoiser import Corruption, Denoiser
from fcfg.judge import AttributeJudge
from fcfg.training.feed import Batch

Draws = tuple[Tensor, ...]


class AbstractObjective(nn.Module, ABC):
    """A trainable module and its loss."""

    @property
    @abstractmethod
    def subject(self) -> nn.Module:
        """The module that is trained."""

    @abstractmethod
    def draw(self, shape: tuple[int, int, int, int], generator: torch.Generator) -> Draws:
        """Draw what the loss of a whole batch needs, row by row."""

    @abstractmethod
    def forward(self, batch: Batch, draws: Draws) -> Float[Tensor, ""]:
        """The loss."""

    @abstractmethod
    def variants(self, draws: Draws) -> dict[str, Draws]:
        """Under which draws held-out images are judged, by the name of the loss in the log."""

    @abstractmethod
    def advice(self, losses: Mapping[str, float]) -> str | None:
        """What a person should know of the losses on held-out images, if anything."""

    @abstractmethod
    def over(self, subject: nn.Module) -> AbstractObjective:
        """The same objective for other weights of the same module, as it is."""

    @abstractmethod
    def fuse(self, *, cuda_graphs: bool) -> None:
        """Make :meth:`forward` faster from now on.

        Args:
            cuda_graphs: Replay all kernels of a step at once, which a GPU that would wait for
                Python to launch them one by one is glad of.
        """


class DenoisingObjective(AbstractObjective):
    """The noise that was added to an image, under its attributes or the null token.

    Args:
        denoiser: What is trained.
        p_null: Probability of dropping the whole condition.
        p_group: Probability of dropping each attribute.
    """

    def __init__(self, denoiser: Denoiser, *, p_null: float, p_group: float) -> None:
        super().__init__()
        self.denoiser = denoiser
        self._p_null, self._p_group = p_null, p_group
        self._loss: Callable[..., Tensor] = self.loss_of

    @property
    def subject(self) -> Denoiser:
        """The denoiser."""
        return self.denoiser

    def draw(self, shape: tuple[int, int, int, int], generator: torch.Generator) -> Draws:
        """Times, noise, and which attributes stay visible."""
        corruption = self.denoiser.draw(
            shape, generator, p_null=self._p_null, p_group=self._p_group
        )
        return corruption.t, corruption.noise, corruption.keep

    def forward(self, batch: Batch, draws: Draws) -> Float[Tensor, ""]:
        """Squared error of the prediction."""
        return self._loss(batch.images, batch.values, *draws)

    def variants(self, draws: Draws) -> dict[str, Draws]:
        """As in training; and with the whole condition, and with none."""
        t, noise, keep = draws
        return {
            "validation_loss": draws,
            "validation_with_condition": (t, noise, torch.ones_like(keep)),
            "validation_without_condition": (t, noise, torch.zeros_like(keep)),
        }

    def advice(self, losses: Mapping[str, float]) -> str | None:
        """Whether the attributes of an image tell the network anything."""
        told = losses["validation_with_condition"]
        untold = losses["validation_without_condition"]
        if told < untold:
            return None
        return (
            f"held-out images are denoised no better with their attributes (loss {told:.6g}) than "
            f"without ({untold:.6g}), so guidance has nothing to push: train longer, or see "
            "whether the attributes show in the images"
        )

    def over(self, subject: nn.Module) -> DenoisingObjective:
        """The objective of another denoiser."""
        denoiser = cast(Denoiser, subject)
        return DenoisingObjective(denoiser, p_null=self._p_null, p_group=self._p_group)

    def fuse(self, *, cuda_graphs: bool) -> None:
        """Fuse noising, network and error into few kernels."""
        schedule = self.denoiser.schedule  # its table must be there, or all is compiled twice
        schedule.signal(torch.ones(1, dtype=torch.int64, device=self.denoiser.device))
        self._loss = torch.compile(self.loss_of, mode=_mode(cuda_graphs))

    def loss_of(
        self, images: Tensor, values: Tensor, t: Tensor, noise: Tensor, keep: Tensor
    ) -> Float[Tensor, ""]:
        """The loss of tensors alone, which a compiler can follow."""
        return self.denoiser.loss(images, values, Corruption(t, noise, keep))


class ReadingObjective(AbstractObjective):
    """The attributes of an image, and its factors where they are known.

    Args:
        judge: What is trained.
    """

    def __init__(self, judge: AttributeJudge) -> None:
        super().__init__()
        self.judge = judge
        self._outputs: Callable[[Tensor], Tensor] = self._eager

    @property
    def subject(self) -> AttributeJudge:
        """The judge."""
        return self.judge

    def draw(self, shape: tuple[int, int, int, int], generator: torch.Generator) -> Draws:
        """Nothing."""
        return ()

    def forward(self, batch: Batch, draws: Draws) -> Float[Tensor, ""]:
        """Cross-entropies and squared errors of its heads."""
        return self.judge.loss(self._outputs(batch.images).float(), batch.values, batch.factors)

    def variants(self, draws: Draws) -> dict[str, Draws]:
        """One: nothing is drawn."""
        return {"validation_loss": draws}

    def advice(self, losses: Mapping[str, float]) -> str | None:
        """Nothing."""
        return None

    def over(self, subject: nn.Module) -> ReadingObjective:
        """The objective of another judge."""
        return ReadingObjective(cast(AttributeJudge, subject))

    def fuse(self, *, cuda_graphs: bool) -> None:
        """Fuse the network into few kernels."""
        self._outputs = torch.compile(self._eager, mode=_mode(cuda_graphs))

    def _eager(self, images: Tensor) -> Tensor:
        return self.judge(images)


def _mode(cuda_graphs: bool) -> str:
    """What torch.compile calls it."""
    return "reduce-overhead" if cuda_graphs else "default"
