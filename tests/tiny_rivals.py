"""Rivals that answer in milliseconds, with random weights, and what is asked of them."""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from torch import Tensor

from evaluations import tiny_model
from fcfg import AttributeSpace, Binary, Continuous, NoiseSchedule, StructuralCausalModel
from fcfg.causal import Categorical, CausalGraph
from fcfg.rivals import sadcg
from fcfg.rivals.hvae import HVAE, HVAEConfig, HVAEModel
from fcfg.rivals.sadcg import SemanticConfig, SemanticDenoiser, SemanticPipeline
from fcfg.support.images import images_from_bytes
from tiny import randomised
from worlds import binary_space, roots

CODERS = {"encoder": "8b1d2,4b1d4,1b1", "decoder": "1b1,4b1,8b1"}
VAE = HVAEConfig(size=8, parents=5, **CODERS, widths=(8, 8, 16), latent=3)
SICK = AttributeSpace(
    [Binary("sick"), Categorical("site", ["a", "b", "c"]), Continuous("age", 20, 80)]
)
LEVELS = {"multipliers": (1, 2), "encoder_multipliers": (1, 2, 2), "attention": (4,), "blocks": 1}
SEMANTIC = SemanticConfig(channels=1, size=8, base=8, condition=7, latent=4, dropout=0.0, **LEVELS)


@cache
def sick_scm() -> StructuralCausalModel:
    """Age makes sick."""
    scm = StructuralCausalModel(SICK, CausalGraph({"age": [], "site": [], "sick": ["age"]}))
    scm.fit(sick_table(300), steps=20)
    return scm


def sick_table(count: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    columns = {"sick": rng.integers(0, 2, count), "site": rng.integers(0, 3, count)}
    return SICK.parse(columns | {"age": rng.uniform(20, 80, count)})


def pictures(count: int = 3, channels: int = 3, size: int = 8) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    pixels = torch.randint(256, (count, channels, size, size), generator=generator)
    return images_from_bytes(pixels.to(torch.uint8))


def tiny_vae(scale: float = 0.1, **shape: object) -> HVAE:
    """A network that depends on everything."""
    torch.manual_seed(0)
    return randomised(HVAE(HVAEConfig(**VAE.model_dump() | shape)), scale)


def sick_hvae(channels: int = 3) -> HVAEModel:
    return HVAEModel(tiny_vae(channels=channels), sick_scm())


def tiny_denoiser(
    seed: int = 0, space: AttributeSpace | None = None, **shape: object
) -> SemanticDenoiser:
    config = SemanticConfig(**SEMANTIC.model_dump() | shape)
    torch.manual_seed(seed)
    embedder = sadcg.SemanticEmbedder(space or binary_space(), config.latent)
    network, encoder = sadcg.SemanticUNet(config), sadcg.SemanticEncoder(config)
    denoiser = SemanticDenoiser(network, embedder, NoiseSchedule(), encoder)
    return randomised(denoiser, 0.04, seed).eval()


def tiny_pipeline(seed: int = 0) -> SemanticPipeline:
    """In float64."""
    space = binary_space()
    scm = StructuralCausalModel(space, roots(space))
    return SemanticPipeline(tiny_denoiser(seed).double(), scm)


def tiny_images(n: int = 3) -> tuple[Tensor, dict[str, np.ndarray]]:
    """Images and attributes of the pipeline."""
    generator = torch.Generator().manual_seed(1)
    images = torch.rand(n, 1, 8, 8, generator=generator, dtype=torch.float64) * 2 - 1
    codes = torch.randint(0, 2, (n, 3), generator=generator).numpy()
    return images, dict(zip(binary_space().names, codes.T, strict=True))


# Over the drawn world of the laws


def hvae() -> HVAEModel:
    world = tiny_model(saved=True)
    network = tiny_vae(0.04, parents=sum(world.space.widths))
    return HVAEModel(network, world.scm, judge=world.judge, provenance=world.provenance)


def semantic() -> SemanticPipeline:
    world = tiny_model(saved=True)
    denoiser, about = tiny_denoiser(space=world.space, channels=3), world.provenance
    return SemanticPipeline(denoiser, world.scm, judge=world.judge, provenance=about)
