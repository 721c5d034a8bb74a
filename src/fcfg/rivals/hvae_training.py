"""The training of a hierarchical VAE, and its fine-tuning."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt

from fcfg.support.config_errors import validate
from fcfg.support.errors import InputError
from fcfg.support.hashing import stream_seed
from fcfg.training.kinds import ModelTraining, Part, register_training
from fcfg.training.sections import BatchSize, Optimisation, Publish

if TYPE_CHECKING:
    from torch import Tensor

    from fcfg.causal.scm import StructuralCausalModel
    from fcfg.hvae import HVAE, HVAEConfig, HVAEModel
    from fcfg.judge import AttributeJudge
    from fcfg.rivals.hvae_objectives import CounterfactualObjective, FreeEnergyObjective
    from fcfg.training.config import TrainingConfig
    from fcfg.training.objectives import AbstractObjective
    from fcfg.training.run import Session

_BOUND_IMAGES = 8192  # training images whose free energy bounds that of the fine-tuning


class FineTuning(Optimisation):
    """Fine-tuning of a hierarchical VAE on what the judge reads from its counterfactuals."""

    betas: ClassVar[tuple[float, float]] = (0.9, 0.9)
    cost: ClassVar[float] = 3.0

    batch: BatchSize = 32
    learning_rate: PositiveFloat = 1e-4
    weight_decay: float = Field(default=0.01, ge=0)
    warmup: NonNegativeInt = 100
    clip: PositiveFloat | None = 350.0
    skip: PositiveFloat | None = 10_000.0
    """Far above that of the VAE: where the constraint is broken, steep steps lead back to it."""
    ema: float | None = Field(default=0.999, ge=0, lt=1)
    targets: Literal["hard", "soft"] = "hard"
    """Targets of attributes that an intervention does not affect: their values, or what the judge
    reads from the factual image."""
    damping: PositiveFloat = 100.0  #: of the constraint on the free energy
    multiplier_rate: PositiveFloat = 1e-2  #: learning rate of its Lagrange multiplier


@register_training("hvae")
class HVAETraining(ModelTraining):
    """Training of a hierarchical VAE; see :mod:`fcfg.hvae`."""

    betas: ClassVar[tuple[float, float]] = (0.9, 0.9)

    kind: Literal["hvae"]
    encoder: str = "32b3d2,16b3d2,8b3d2,4b3d4,1b4"
    decoder: str = "1b4,4b4,8b4,16b4,32b4"
    widths: tuple[PositiveInt, ...] = (16, 32, 64, 128, 256)
    latent: PositiveInt = 16
    largest_latent: PositiveInt | None = None
    prior: Literal["conditional", "exogenous"] = "conditional"
    dropped: tuple[str, ...] = ()  #: attributes that training hides from the prior or the decoder
    beta: PositiveFloat = 1.0  #: weight of the divergence in the free energy
    batch: BatchSize = 32
    learning_rate: PositiveFloat = 1e-3
    weight_decay: float = Field(default=0.01, ge=0)
    warmup: NonNegativeInt = 100
    clip: PositiveFloat | None = 350.0
    skip: PositiveFloat | None = 500.0
    ema: float | None = Field(default=0.999, ge=0, lt=1)
    publish: Publish = "best"
    finetuning: FineTuning | None = None

    @property
    def parts(self) -> tuple[Part, ...]:
        """The parts of the training, in order."""
        first = Part("hvae", "model", self)
        if self.finetuning is None:
            return (first,)
        return first, Part("finetuning", "model.finetuning", self.finetuning)

    def check(self, config: TrainingConfig) -> None:
        """Refuse settings that do not fit together."""
        self.shape(config)

    def shape(self, config: TrainingConfig) -> HVAEConfig:
        """Return the shape of the network."""
        from fcfg.hvae import HVAEConfig

        space = config.space
        space.check_known(self.dropped, "model.dropped")
        pairs = zip(space.names, space.widths, strict=True)
        values = [name for name, width in pairs for _ in range(width)]
        keys = {"encoder", "decoder", "widths", "latent", "largest_latent", "prior"}
        shape = self.model_dump(include=keys)
        shape |= {"channels": config.data.channels, "size": config.data.size}
        shape |= {"parents": len(values)}
        shape |= {"dropped": [i for i, name in enumerate(values) if name in self.dropped]}
        return validate(HVAEConfig, shape, "model")

    def network(self, config: TrainingConfig, weights: dict[str, Tensor] | None = None) -> HVAE:
        """Return the network, new unless weights are given."""
        from fcfg.hvae import HVAE
        from fcfg.training.models import seeded

        with seeded(config):
            network = HVAE(self.shape(config))
        if weights is not None:
            network.load_state_dict(weights)
        return network

    def objective(
        self, config: TrainingConfig, *, channels_last: bool = False
    ) -> FreeEnergyObjective:
        """Return a new image model, and the loss of its first part."""
        from fcfg.rivals.hvae_objectives import FreeEnergyObjective

        return FreeEnergyObjective(self.network(config), self.beta)

    def model(
        self,
        config: TrainingConfig,
        scm: StructuralCausalModel,
        judge: AttributeJudge | None,
        weights: Callable[[str], dict[str, Tensor] | None],
    ) -> HVAEModel:
        """Assemble the model."""
        from fcfg.hvae import HVAEModel
        from fcfg.training.state import under_prefix

        tuned = None if self.finetuning is None else weights("finetuning")
        best = weights("hvae") if tuned is None else under_prefix("network", tuned)
        return HVAEModel(self.network(config, best).eval(), scm, judge=judge)

    def part_objective(self, part: str, session: Session) -> AbstractObjective:
        """Return the loss of a part."""
        if part == "finetuning":
            return self._counterfactual_objective(session)
        return self.objective(session.config)

    def _counterfactual_objective(self, session: Session) -> CounterfactualObjective:
        import torch

        from fcfg.rivals.hvae_objectives import (
            ConstrainedHVAE,
            CounterfactualObjective,
            FreeEnergyObjective,
            Lagrangian,
            TrainingInterventions,
        )
        from fcfg.training.loop import mean_losses

        workspace, settings = session.workspace, self.finetuning
        assert settings is not None, "the configuration has this part"
        judge, weights = workspace.judge(), workspace.weights("hvae")
        if judge is None or weights is None:
            raise InputError(
                "part finetuning",
                expected="a trained judge and a trained hierarchical VAE",
                got="no judge" if judge is None else "no hierarchical VAE",
                do="train all parts, or these two first",
            )
        network = self.network(session.config, weights).to(session.device)
        images = session.first("train", _BOUND_IMAGES, settings.batch, {})
        seed = stream_seed(session.config.seed, "bound")
        generator = torch.Generator(session.device).manual_seed(seed)
        with session.accelerator.autocast():  # as in the steps
            losses = mean_losses(FreeEnergyObjective(network, self.beta), images, generator)
        lagrangian = Lagrangian(losses["validation_loss"], settings.damping)
        return CounterfactualObjective(
            ConstrainedHVAE(network, lagrangian),
            judge,
            TrainingInterventions(workspace.scm(), session.splits["train"].attributes),
            beta=self.beta,
            soft=settings.targets == "soft",
            multiplier_rate=settings.multiplier_rate / settings.learning_rate,
        )
