"""A small SA-DCG with random weights: its laws hold without training."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from fcfg.causal.scm import StructuralCausalModel
from fcfg.diffusion.schedule import NoiseSchedule
from fcfg.rivals.sadcg import (
    SemanticConfig,
    SemanticDenoiser,
    SemanticEmbedder,
    SemanticEncoder,
    SemanticPipeline,
    SemanticUNet,
)
from tiny import randomised
from worlds import binary_space, roots

CONFIG = SemanticConfig(
    channels=1,
    size=8,
    base=8,
    multipliers=(1, 2),
    encoder_multipliers=(1, 2, 2),
    attention=(4,),
    blocks=1,
    condition=7,
    latent=4,
    dropout=0.0,
)


def tiny_denoiser(seed: int = 0, config: SemanticConfig = CONFIG) -> SemanticDenoiser:
    """A denoiser in float64."""
    torch.manual_seed(seed)
    embedder = SemanticEmbedder(binary_space(), config.latent)
    denoiser = SemanticDenoiser(
        SemanticUNet(config), embedder, NoiseSchedule(), SemanticEncoder(config)
    )
    return randomised(denoiser, 0.04, seed).double().eval()


def tiny_pipeline(seed: int = 0) -> SemanticPipeline:
    space = binary_space()
    return SemanticPipeline(tiny_denoiser(seed), StructuralCausalModel(space, roots(space)))


def tiny_images(n: int = 3, seed: int = 1) -> tuple[Tensor, dict[str, np.ndarray]]:
    """Images and attributes."""
    generator = torch.Generator().manual_seed(seed)
    images = torch.rand(n, 1, 8, 8, generator=generator, dtype=torch.float64) * 2 - 1
    codes = torch.randint(0, 2, (n, 3), generator=generator).numpy()
    return images, dict(zip(binary_space().names, codes.T, strict=True))
