"""A hierarchical VAE that answers in milliseconds, and what is asked of it."""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from torch import Tensor

from fcfg.causal.attributes import AttributeSpace, Binary, Categorical, Continuous
from fcfg.causal.graph import CausalGraph
from fcfg.causal.scm import StructuralCausalModel
from fcfg.rivals.hvae import HVAE, HVAEConfig, HVAEModel
from fcfg.support.images import images_from_bytes
from tiny import randomised

CONFIG = HVAEConfig(
    size=8,
    parents=5,
    encoder="8b1d2,4b1d4,1b1",
    decoder="1b1,4b1,8b1",
    widths=(8, 8, 16),
    latent=3,
)


SPACE = AttributeSpace(
    [Binary("sick"), Categorical("site", ["a", "b", "c"]), Continuous("age", 20, 80)]
)


@cache
def sick_scm() -> StructuralCausalModel:
    """Age makes sick."""
    scm = StructuralCausalModel(SPACE, CausalGraph({"age": [], "site": [], "sick": ["age"]}))
    scm.fit(table(300), steps=20)
    return scm


def tiny_hvae(channels: int = 3) -> HVAEModel:
    """A network that depends on everything."""
    torch.manual_seed(0)
    network = HVAE(HVAEConfig(**{**CONFIG.model_dump(), "channels": channels}))
    return HVAEModel(randomised(network, 0.1), sick_scm())


def table(count: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    return SPACE.parse(
        {
            "sick": rng.integers(0, 2, count),
            "site": rng.integers(0, 3, count),
            "age": rng.uniform(20, 80, count),
        }
    )


def pictures(count: int = 3, channels: int = 3, size: int = 8) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    pixels = torch.randint(256, (count, channels, size, size), generator=generator)
    return images_from_bytes(pixels.to(torch.uint8))
