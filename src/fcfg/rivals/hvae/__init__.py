"""A hierarchical VAE with a causal model of the attributes, the baseline HVAE of the paper."""

from fcfg.rivals.hvae.config import CONFIGS, HVAEConfig
from fcfg.rivals.hvae.likelihood import PixelDistribution, transfer_residual
from fcfg.rivals.hvae.model import (
    HVAEAbduction,
    HVAECounterfactual,
    HVAEModel,
    HVAESetting,
)
from fcfg.rivals.hvae.network import HVAE, Inference

__all__ = [
    "CONFIGS",
    "HVAE",
    "HVAEAbduction",
    "HVAEConfig",
    "HVAECounterfactual",
    "HVAEModel",
    "HVAESetting",
    "Inference",
    "PixelDistribution",
    "transfer_residual",
]
