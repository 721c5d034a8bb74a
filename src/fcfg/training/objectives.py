"""The losses of the networks of a model.

An objective is a module that returns the loss, so data parallelism and autocast wrap the loss.
Random numbers are drawn for the whole batch of a step, and each process takes its rows, so they do
not depend on the number of processes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, Generic, Self, TypeAlias, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from fcfg.diffusion.denoiser import Corruption, Denoiser
from fcfg.diffusion.networks import evaluation_mode
from fcfg.diffusion.times import TrainingTimes
from fcfg.judge import AttributeJudge
from fcfg.training.feed import Batch

Draws = tuple[Tensor, ...]
Loss: TypeAlias = Float[Tensor, ""]
SubjectT = TypeVar("SubjectT", bound=nn.Module)


class AbstractObjective(nn.Module, ABC, Generic[SubjectT]):
    """A module that is trained, the subject, and its loss.

    The options are keyword arguments of the constructor.
    """

    def __init__(self, subject: SubjectT, **options: Any) -> None:
        super().__init__()
        self.subject = subject
        self._options = options
        self._loss: Callable[..., Tensor] = self.loss_of

    @abstractmethod
    def draw(self, shape: tuple[int, ...], generator: torch.Generator) -> Draws:
        """Draw the random numbers of the loss of a whole batch, one row per image."""

    @abstractmethod
    def loss_of(self, images: Tensor, values: Tensor, factors: Tensor, *draws: Tensor) -> Loss:
        """Return the loss as a function of tensors only, which can be compiled."""

    @abstractmethod
    def variants(self, draws: Draws) -> dict[str, Draws]:
        """Return the draws of each validation loss, by its name in the log."""

    def over(self, subject: SubjectT) -> Self:
        """Return the same objective, not compiled, for another module."""
        return type(self)(subject, **self._options)

    def forward(self, batch: Batch, draws: Draws) -> Loss:
        """Return the loss."""
        return self._loss(batch.images, batch.values, batch.factors, *draws)

    def fuse(self, *, cuda_graphs: bool) -> None:
        """Compile the loss; a CUDA graph replays a step without the overhead of its launches."""
        mode = "reduce-overhead" if cuda_graphs else "default"
        self._loss = torch.compile(self.loss_of, mode=mode)

    @property
    def passes(self) -> int:
        """How many times the loss calls the whole network; once by default."""
        return 1

    def blocks(self) -> list[nn.Module]:
        """Return modules that ``run.shard`` shards, and gathers one by one; none by default.

        The loss calls each as a module. Without any, weights stay whole in every process.
        """
        return []

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Return the groups of the optimiser; one of all parameters by default.

        The learning rate of a group with a ``factor`` is multiplied by it.
        """
        return [{"params": list(self.subject.parameters())}]

    def advice(self, losses: Mapping[str, float]) -> str | None:
        """Return a warning about the validation losses, if there is one; none by default."""
        return None

    def after_step(self) -> None:
        """Bring parameters back to their legal range after an optimiser step; none by default."""

    def log_values(self) -> dict[str, float]:
        """Return numbers for each line of the log, by name; none by default."""
        return {}

    @torch.no_grad()
    def mean_losses(
        self, batches: Sequence[Batch], generator: torch.Generator
    ) -> dict[str, float]:
        """Return the validation losses, averaged over the images of some batches."""
        losses: dict[str, float] = {}
        count = sum(len(batch.images) for batch in batches)
        with evaluation_mode(self):
            for batch in batches:
                draws = self.draw(tuple(batch.images.shape), generator)
                rows = len(batch.images)
                for name, variant in self.variants(draws).items():
                    share = rows / count * float(self(batch, variant))
                    losses[name] = losses.get(name, 0.0) + share
        return losses


AnyObjective: TypeAlias = AbstractObjective[Any]


class DenoisingObjective(AbstractObjective[Denoiser]):
    """Prediction of the noise in an image, given its condition or the null token.

    Options are those of a configuration, and ``weights`` those of further terms of the denoiser's
    own loss. The interaction of groups of attributes, whose weight is ``independence``, costs four
    network rows per image; at 0 it is neither computed nor drawn.
    """

    def __init__(
        self,
        denoiser: Denoiser,
        *,
        p_null: float,
        p_group: float = 0.0,
        independence: float = 0.0,
        times: TrainingTimes | None = None,
        **weights: float,
    ) -> None:
        drawn: dict[str, Any] = {"p_null": p_null, "p_group": p_group, "times": times}
        super().__init__(denoiser, independence=independence, **drawn, **weights)
        self._independence, self._weights, self._drawn = independence, weights, drawn

    @property
    def passes(self) -> int:
        return 2 if self._independence else 1

    def blocks(self) -> list[nn.Module]:
        """Return the outermost modules that the network has in lists, or else the network."""
        network = self.subject.network
        return list(_listed(network)) or [network]

    def draw(self, shape: tuple[int, ...], generator: torch.Generator) -> Draws:
        """Draw times, noise, and the attributes to keep; then the groups that should add up.

        Groups do not advance the generator, so that later draws are those without the term, and
        validation losses can be compared.
        """
        drawn = self.subject.draw(shape, generator, **self._drawn)
        draws = drawn.t, drawn.noise, drawn.keep
        draws += () if drawn.latent is None else (drawn.latent,)
        if self._independence == 0:
            return draws
        copy = torch.Generator(generator.device).set_state(generator.get_state())
        return *draws, self.subject.draw_groups(shape[0], copy)

    def variants(self, draws: Draws) -> dict[str, Draws]:
        alone = draws if self._independence == 0 else (*draws[:-1], draws[-1][:0])  # no groups
        t, noise, keep, *rest = alone
        variants: dict[str, Draws] = {
            "validation_loss": draws,
            "validation_with_condition": (t, noise, torch.ones_like(keep), *rest),
            "validation_without_condition": (t, noise, torch.zeros_like(keep), *rest),
        }
        if self._independence:
            variants["validation_without_independence"] = alone
        return variants

    def advice(self, losses: Mapping[str, float]) -> str | None:
        conditional = losses["validation_with_condition"]
        unconditional = losses["validation_without_condition"]
        if conditional < unconditional:
            return None
        return (
            "held-out images are denoised no better with their attributes "
            f"(loss {conditional:.6g}) than without ({unconditional:.6g}), so guidance will have "
            "no effect: train longer, or check that the attributes are visible in the images"
        )

    def fuse(self, *, cuda_graphs: bool) -> None:
        """Compile noising, network and error as one function."""
        schedule = self.subject.schedule  # filling its cache now avoids a second compilation
        schedule.signal(torch.ones(1, dtype=torch.int64, device=self.subject.device))
        super().fuse(cuda_graphs=cuda_graphs)

    def loss_of(self, images: Tensor, values: Tensor, factors: Tensor, *draws: Tensor) -> Loss:
        noising = draws[:-1] if self._independence else draws
        corruption = Corruption(*noising)
        loss = self.subject.loss(images, values, corruption, **self._weights)
        if not self._independence or not len(draws[-1]):
            return loss
        interaction = self.subject.interaction(images, values, corruption, draws[-1])
        return loss + self._independence * interaction


class ReadingObjective(AbstractObjective[AttributeJudge]):
    """Prediction of the attributes of an image, and of its factors if they are known."""

    def draw(self, shape: tuple[int, ...], generator: torch.Generator) -> Draws:
        return ()

    def loss_of(self, images: Tensor, values: Tensor, factors: Tensor, *draws: Tensor) -> Loss:
        return self.subject.loss(self.subject(images).float(), values, factors)

    def variants(self, draws: Draws) -> dict[str, Draws]:
        return {"validation_loss": draws}


def _listed(module: nn.Module) -> Generator[nn.Module]:
    for child in module.children():
        if isinstance(module, nn.ModuleList) and not isinstance(child, nn.ModuleList):
            yield child
        else:
            yield from _listed(child)
