"""What ``fcfg train`` can train of this room: hierarchical VAEs and their fine-tuning, SA-DCG."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal, cast

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt

from fcfg.support.config_files import validate
from fcfg.training.diffusion import DenoisingNetwork, DenoisingTraining
from fcfg.training.kinds import Ground, Inputs, ModelTraining, Part, WeightsOf, register_training
from fcfg.training.sections import BatchSize, Optimisation, Publish

if TYPE_CHECKING:
    from torch import Tensor

    from fcfg.rivals.hvae import HVAE, HVAEConfig
    from fcfg.rivals.hvae_objectives import CounterfactualObjective, FreeEnergyObjective
    from fcfg.rivals.sadcg import SemanticConfig, SemanticDenoiser

_BOUND_IMAGES = 8192  # training images whose free energy bounds that of the fine-tuning


class HVAEOptimisation(Optimisation):
    """What the training of a hierarchical VAE and its fine-tuning have in common."""

    betas: ClassVar[tuple[float, float]] = (0.9, 0.9)

    batch: BatchSize = 32
    weight_decay: float = Field(default=0.01, ge=0)
    warmup: NonNegativeInt = 100
    clip: PositiveFloat | None = 350.0
    ema: float | None = Field(default=0.999, ge=0, lt=1)


class FineTuning(HVAEOptimisation):
    """Fine-tuning of a hierarchical VAE on what the judge reads from its counterfactuals."""

    cost: ClassVar[float] = 3.0

    learning_rate: PositiveFloat = 1e-4
    skip: PositiveFloat | None = 10_000.0
    """Far above that of the VAE: where the constraint is broken, steep steps lead back to it."""
    targets: Literal["hard", "soft"] = "hard"
    """Targets of attributes that an intervention does not affect: their values, or what the judge
    reads from the factual image."""
    damping: PositiveFloat = 100.0  #: of the constraint on the free energy
    multiplier_rate: PositiveFloat = 1e-2  #: learning rate of its Lagrange multiplier


@register_training("hvae")
class HVAETraining(HVAEOptimisation, ModelTraining):
    """Training of a hierarchical VAE; see :mod:`fcfg.rivals.hvae`."""

    kind: Literal["hvae"]
    encoder: str = "32b3d2,16b3d2,8b3d2,4b3d4,1b4"
    decoder: str = "1b4,4b4,8b4,16b4,32b4"
    widths: tuple[PositiveInt, ...] = (16, 32, 64, 128, 256)
    latent: PositiveInt = 16
    largest_latent: PositiveInt | None = None
    prior: Literal["conditional", "exogenous"] = "conditional"
    dropped: tuple[str, ...] = ()  #: attributes that training hides from the prior or the decoder
    beta: PositiveFloat = 1.0  #: weight of the divergence in the free energy
    learning_rate: PositiveFloat = 1e-3
    skip: PositiveFloat | None = 500.0
    publish: Publish = "best"
    finetuning: FineTuning | None = None

    @property
    def parts(self) -> tuple[Part, ...]:
        first = Part("hvae", "model", self, self)
        if self.finetuning is None:
            return (first,)
        return first, Part("finetuning", "model.finetuning", self.finetuning, self)

    def shape(self, inputs: Inputs) -> HVAEConfig:
        from fcfg.rivals.hvae import HVAEConfig

        space = inputs.space
        space.check_known(self.dropped, "model.dropped")
        pairs = zip(space.names, space.widths, strict=True)
        values = [name for name, width in pairs for _ in range(width)]
        keys = {"encoder", "decoder", "widths", "latent", "largest_latent", "prior"}
        shape = self.model_dump(include=keys) | inputs.pixels | {"parents": len(values)}
        shape |= {"dropped": [i for i, name in enumerate(values) if name in self.dropped]}
        return validate(HVAEConfig, shape, "model")

    def build(self, inputs: Inputs) -> HVAE:
        from fcfg.rivals.hvae import HVAE

        with inputs.seeded():
            return HVAE(self.shape(inputs))

    def objective(self, network: HVAE) -> FreeEnergyObjective:
        from fcfg.rivals.hvae_objectives import FreeEnergyObjective

        return FreeEnergyObjective(network, self.beta)

    def published(self, weights: WeightsOf) -> dict[str, Tensor] | None:
        from fcfg.training.state import under_prefix

        tuned = None if self.finetuning is None else weights("finetuning")
        return weights("hvae") if tuned is None else under_prefix("network", tuned)

    def later_objective(self, part: str, ground: Ground) -> CounterfactualObjective:
        from fcfg.rivals.hvae_objectives import (
            ConstrainedHVAE,
            CounterfactualObjective,
            TrainingInterventions,
        )

        network, settings = cast("HVAE", ground.network), self.finetuning
        assert settings is not None, "the configuration has this part"
        bound = ground.first_loss(self.objective(network), _BOUND_IMAGES, settings.batch)
        return CounterfactualObjective(
            ConstrainedHVAE(network, bound, settings.damping),
            ground.judge,
            TrainingInterventions(ground.scm, ground.table),
            beta=self.beta,
            soft=settings.targets == "soft",
            multiplier_rate=settings.multiplier_rate / settings.learning_rate,
        )


@register_training("semantic")
class SemanticTraining(DenoisingTraining):
    """Training of a diffusion model with a semantic encoder; attributes are masked together."""

    terms: ClassVar = {"p_null", "kl_weight"}

    kind: Literal["semantic"]
    network: DenoisingNetwork = DenoisingNetwork()
    latent: PositiveInt = 32  #: width of the semantics
    encoder_multipliers: tuple[PositiveInt, ...] = (1, 2, 4, 8, 8)  #: factors of network.base
    kl_weight: float = Field(default=1e-3, ge=0)  #: weight of the divergence of the semantics

    def shape(self, inputs: Inputs) -> SemanticConfig:
        from fcfg.rivals.sadcg import SemanticConfig

        self.schedule.build()
        shape = self.network.shape(inputs, self.latent + sum(inputs.space.widths))
        shape |= self.model_dump(include={"latent", "encoder_multipliers"})
        return validate(SemanticConfig, shape, "model")

    def build(self, inputs: Inputs) -> SemanticDenoiser:
        from fcfg.rivals import sadcg

        shape = self.shape(inputs)
        with inputs.seeded():
            return sadcg.SemanticDenoiser(
                sadcg.SemanticUNet(shape, **self.network.layout(inputs)),
                sadcg.SemanticEmbedder(inputs.space, self.latent),
                self.schedule.build(),
                sadcg.SemanticEncoder(shape),
                parameterisation=self.schedule.parameterisation,
            )
