"""A hierarchical VAE with a causal model of the attributes, the baseline HVAE of the paper."""

from fcfg.hvae.config import CONFIGS, HVAEConfig
from fcfg.hvae.likelihood import PixelDistribution, transfer_residual
from fcfg.hvae.model import HVAEAbduction, HVAECounterfactual, HVAEModel
from fcfg.hvae.network import HVAE, Inference
from fcfg.hvae.setting import HVAESetting

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
