"""Tiny models of the rivals, over the drawn world of the laws."""

from __future__ import annotations

import torch
from torch import nn

import tiny_hvae
import tiny_semantic
from evaluations import tiny_model
from fcfg.diffusion.schedule import NoiseSchedule
from fcfg.rivals.hvae import HVAE, HVAEConfig, HVAEModel
from fcfg.rivals.sadcg import (
    SemanticConfig,
    SemanticDenoiser,
    SemanticEmbedder,
    SemanticEncoder,
    SemanticPipeline,
    SemanticUNet,
)
from tiny import randomised


def hvae() -> HVAEModel:
    world = tiny_model(saved=True)
    torch.manual_seed(0)
    shape = tiny_hvae.CONFIG.model_dump() | {"parents": sum(world.space.widths)}
    network = randomised(HVAE(HVAEConfig(**shape)), 0.04)
    return HVAEModel(network, world.scm, judge=world.judge, provenance=world.provenance)


def semantic() -> SemanticPipeline:
    world = tiny_model(saved=True)
    torch.manual_seed(0)
    config = SemanticConfig(**tiny_semantic.CONFIG.model_dump() | {"channels": 3})
    parts: list[nn.Module] = [SemanticUNet(config), SemanticEmbedder(world.space, config.latent)]
    denoiser = SemanticDenoiser(*parts, NoiseSchedule(), SemanticEncoder(config)).eval()
    randomised(denoiser, 0.04)
    about = {"judge": world.judge, "provenance": world.provenance}
    return SemanticPipeline(denoiser, world.scm, **about)
