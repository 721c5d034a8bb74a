r"""The losses of a hierarchical VAE: its free energy, then a judge's loss on counterfactuals.

Fine-tuning minimises a judge's loss on counterfactual images while the free energy F of factual
ones stays at most :math:`\epsilon`, by a Lagrange multiplier that ascends while they do not.

.. math:: L = L_{aux} - (\lambda - d\, \mathrm{sg}[\epsilon - F])\, (\epsilon - F)

With soft targets, attributes that the intervention does not affect need not be read better than
from the factual image, where hard targets would amplify them.

References:
    High fidelity image counterfactuals with probabilistic causal models (Ribeiro et al., 2023).
    Mitigating attribute amplification in counterfactual image generation (Xia et al., 2024).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from fcfg.causal.attributes import Continuous, Table
from fcfg.causal.scm import StructuralCausalModel
from fcfg.diffusion.networks import evaluation_mode
from fcfg.judge import AttributeJudge
from fcfg.rivals.hvae.likelihood import transfer_residual
from fcfg.rivals.hvae.network import HVAE
from fcfg.training.objectives import AbstractObjective, Draws, Loss

_LARGEST_KEY = 2**62
_MARGIN = 0.05  # share of the bound that held-out images may be above it


class FreeEnergyObjective(AbstractObjective[HVAE]):
    """The free energy of images: negative log-likelihood, and beta times divergence from prior."""

    def __init__(self, network: HVAE, beta: float) -> None:
        super().__init__(network, beta=beta)
        self._beta = beta

    def draw(self, shape: tuple[int, ...], generator: torch.Generator) -> Draws:
        noise = _latent_noise(self.subject, shape[0], generator)
        if not self.subject.config.dropped:
            return noise
        return *noise, _integers(3, 1, generator).expand(shape[0])

    def loss_of(self, images: Tensor, values: Tensor, factors: Tensor, *draws: Tensor) -> Loss:
        count = len(self.subject.noise_shapes(0))
        nll, kl = self.subject.free_energy(images, values, draws[:count], *draws[count:])
        return (nll + self._beta * kl).mean()

    def variants(self, draws: Draws) -> dict[str, Draws]:
        return {"validation_loss": draws[: len(self.subject.noise_shapes(0))]}


class ConstrainedHVAE(nn.Module):
    """A network in fine-tuning, with the multiplier of the bound on its free energy.

    The bound is the free energy of the pretrained network on the training images; ``damping`` is
    the factor d. The optimiser of the multiplier has to ascend, and :meth:`clamp` to follow.
    """

    bound: Float[Tensor, ""]

    def __init__(self, network: HVAE, bound: float, damping: float = 100.0) -> None:
        super().__init__()
        self.network = network
        self.multiplier = nn.Parameter(torch.zeros(()))
        self.register_buffer("bound", torch.tensor(bound, dtype=torch.float32))
        self.damping = damping

    def penalty(self, energy: Float[Tensor, ""]) -> Float[Tensor, ""]:
        """Return what the constraint adds to the loss."""
        slack = self.bound - energy
        return -(self.multiplier - self.damping * slack.detach()) * slack

    @torch.no_grad()
    def clamp(self) -> None:
        """Bring the multiplier back to 0 if it is negative."""
        self.multiplier.clamp_(min=0)


@dataclass(frozen=True, eq=False)
class TrainingInterventions:
    """Interventions on one attribute, with values of other training images.

    It is no module, since the causal model must stay on the CPU.
    """

    scm: StructuralCausalModel
    table: Table  #: attributes of the training images

    def counterfactual(
        self,
        values: Float[Tensor, "batch values"],
        target: str,
        rows: Int[Tensor, "batch"],
        keys: Int[Tensor, "batch"],
    ) -> Float[Tensor, "batch values"]:
        """Return encoded counterfactual attributes: a target has the values of training images."""
        space, scm = self.scm.space, self.scm
        factual = space.decode(values.cpu().numpy())
        downstream = scm.graph.affected([target]) - {target}
        noise = scm.abduct(factual, downstream, keys=keys.cpu().numpy())
        after = scm.act(factual, {target: self.table[target][rows.cpu().numpy()]}, noise)
        return torch.from_numpy(space.encode(after)).to(values)

    def softened(self, target: str) -> Bool[Tensor, "values"]:
        """Return which encoded numbers have soft targets: classes that are not affected."""
        affected = self.scm.graph.affected([target])
        soft = [
            attribute.name not in affected and not isinstance(attribute, Continuous)
            for attribute in self.scm.space
        ]
        widths = torch.tensor(self.scm.space.widths)
        return torch.tensor(soft).repeat_interleave(widths)


class CounterfactualObjective(AbstractObjective[ConstrainedHVAE]):
    """A judge's loss on counterfactual images, under the constraint on the free energy.

    The judge is frozen. If ``soft``, targets of classes that are not affected are its own reading
    of the factual image. ``multiplier_rate`` is in learning rates of the network.
    """

    def __init__(
        self,
        subject: ConstrainedHVAE,
        judge: AttributeJudge,
        interventions: TrainingInterventions,
        *,
        beta: float,
        soft: bool,
        multiplier_rate: float = 1.0,
    ) -> None:
        fixed = {"judge": judge, "interventions": interventions}
        super().__init__(subject, **fixed, beta=beta, soft=soft, multiplier_rate=multiplier_rate)
        self.judge, self._multiplier_rate = judge.requires_grad_(False), multiplier_rate
        self._interventions, self._beta, self._soft = interventions, beta, soft

    def draw(self, shape: tuple[int, ...], generator: torch.Generator) -> Draws:
        """Draw an attribute, training images, keys of exogenous noise, and latent noise.

        The whole batch has the same attribute.
        """
        batch, table = shape[0], self._interventions.table
        images = len(next(iter(table.values())))
        return (
            _integers(len(table), 1, generator).expand(batch),
            _integers(images, batch, generator),
            _integers(_LARGEST_KEY, batch, generator),
            *_latent_noise(self.subject.network, batch, generator),
        )

    def loss_of(self, images: Tensor, values: Tensor, factors: Tensor, *draws: Tensor) -> Loss:
        """Return the loss of the judge, and what the constraint adds to it.

        Without an intervention among the draws, return the free energy alone.
        """
        network, factual = self.subject.network, values
        count = len(network.noise_shapes(0))
        inference = network.infer(images, factual, draws[-count:])
        energy = (inference.pixels.nll(images) + self._beta * inference.kl).mean()
        if len(draws) == count:
            return energy
        attribute, rows, keys = draws[:-count]
        target = self._interventions.scm.space.names[int(attribute[0])]
        wanted = self._interventions.counterfactual(factual, target, rows, keys)
        pixels = network.decode(inference.latents, wanted)
        answer = transfer_residual(images, inference.pixels, pixels).clamp(-1, 1)
        with evaluation_mode(self.judge):
            if self._soft:
                soft = self._interventions.softened(target).to(wanted.device)
                wanted = torch.where(soft, self._reading(images), wanted)
            loss = self.judge.attribute_loss(self.judge(answer).float(), wanted)
        return loss + self.subject.penalty(energy)

    def variants(self, draws: Draws) -> dict[str, Draws]:
        count = len(self.subject.network.noise_shapes(0))
        return {"validation_loss": draws, "validation_free_energy": draws[-count:]}

    def advice(self, losses: Mapping[str, float]) -> str | None:
        energy, bound = losses["validation_free_energy"], float(self.subject.bound)
        if energy - bound < _MARGIN * abs(bound):
            return None
        return (
            f"the free energy of held-out images, {energy:.4g}, is far above that of the training "
            f"images before, {bound:.4g}: fine-tune longer, or raise finetuning.damping"
        )

    def fuse(self, *, cuda_graphs: bool) -> None:
        """Compile nothing, since the causal model interrupts the computation."""

    def parameter_groups(self) -> list[dict[str, Any]]:
        multiplier = {"params": [self.subject.multiplier], "weight_decay": 0.0}
        ascending = {"factor": self._multiplier_rate, "maximize": True}
        return [{"params": list(self.subject.network.parameters())}, multiplier | ascending]

    def after_step(self) -> None:
        self.subject.clamp()

    def log_values(self) -> dict[str, float]:
        multiplier, bound = self.subject.multiplier, self.subject.bound
        return {"multiplier": multiplier.item(), "bound": bound.item()}

    @torch.no_grad()
    def _reading(self, images: Tensor) -> Float[Tensor, "batch values"]:
        return self.judge.expected_values(self.judge(images).float())


def _latent_noise(network: HVAE, batch: int, generator: torch.Generator) -> Draws:
    return tuple(
        torch.randn(shape, generator=generator, device=generator.device)
        for shape in network.noise_shapes(batch)
    )


def _integers(end: int, count: int, generator: torch.Generator) -> Int[Tensor, "count"]:
    return torch.randint(end, (count,), generator=generator, device=generator.device)
