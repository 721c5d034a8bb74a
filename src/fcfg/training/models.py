"""New networks of a configuration; their weights follow from its seed."""

from __future__ import annotations

import torch

from fcfg.diffusion.denoiser import Denoiser
from fcfg.diffusion.embedder import AttributeEmbedder
from fcfg.diffusion.networks import (
    Judge,
    SemanticConfig,
    SemanticEncoder,
    SemanticUNet,
    UNet,
)
from fcfg.diffusion.semantic import SemanticDenoiser, SemanticEmbedder
from fcfg.hvae import HVAE
from fcfg.judge import AttributeJudge
from fcfg.training.config import TrainingConfig
from fcfg.training.objectives import AbstractObjective, DenoisingObjective
from fcfg.training.semantic_objective import SemanticObjective


def new_denoiser(config: TrainingConfig, *, channels_last: bool = False) -> Denoiser:
    """Return a denoiser, that of SA-DCG if the configuration has its section.

    Args:
        config: The configuration.
        channels_last: Whether the weights of the network lie so, which is faster on a GPU.
    """
    network, shape, kind = config.network, config.unet, config.schedule.parameterisation
    layout = {
        "gradient_checkpointing": network.gradient_checkpointing,
        "channels_last": channels_last,
    }
    with torch.random.fork_rng():
        torch.manual_seed(config.seed)
        if isinstance(shape, SemanticConfig):
            return SemanticDenoiser(
                SemanticUNet(shape, **layout),
                SemanticEmbedder(config.space, shape.latent),
                config.noise_schedule,
                SemanticEncoder(shape),
                parameterisation=kind,
            )
        return Denoiser(
            UNet(shape, **layout),
            AttributeEmbedder(config.space, network.embedding),
            config.noise_schedule,
            parameterisation=kind,
        )


def denoising_objective(config: TrainingConfig, denoiser: Denoiser) -> AbstractObjective:
    """Return the loss of a denoiser.

    Args:
        config: The configuration.
        denoiser: Denoiser that it describes.
    """
    settings = config.diffusion
    if isinstance(denoiser, SemanticDenoiser):
        assert config.semantic is not None, "the denoiser follows from the configuration"
        kl_weight = config.semantic.kl_weight
        return SemanticObjective(denoiser, p_null=settings.p_null, kl_weight=kl_weight)
    return DenoisingObjective(
        denoiser,
        p_null=settings.p_null,
        p_group=settings.p_group,
        independence=settings.independence,
    )


def new_vae(config: TrainingConfig) -> HVAE:
    """Return a hierarchical VAE."""
    assert config.vae is not None, "the configuration has a section for it"
    with torch.random.fork_rng():
        torch.manual_seed(config.seed)
        return HVAE(config.vae)


def new_judge(config: TrainingConfig, scales: dict[str, tuple[float, float]]) -> AttributeJudge:
    """Return a judge.

    Args:
        config: The configuration.
        scales: Mean and standard deviation of each factor it reads.
    """
    outputs = config.judge_network.outputs + len(scales)
    shape = config.judge_network.model_copy(update={"outputs": outputs})
    with torch.random.fork_rng():
        torch.manual_seed(config.seed)
        return AttributeJudge(Judge(shape), config.space, scales)
