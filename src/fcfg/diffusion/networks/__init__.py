"""Networks, independent of the package; any module with the same call can replace them."""

from typing import Any, TypeAlias

from fcfg.diffusion.networks.dit import DiT, DiTConfig
from fcfg.diffusion.networks.judge import Judge, JudgeConfig
from fcfg.diffusion.networks.modes import evaluation_mode
from fcfg.diffusion.networks.unet import UNet, UNetConfig, repeat_for_conditions

OwnNetwork: TypeAlias = UNet | DiT
OwnConfig: TypeAlias = UNetConfig | DiTConfig

__all__ = [
    "DiT",
    "DiTConfig",
    "Judge",
    "JudgeConfig",
    "OwnConfig",
    "OwnNetwork",
    "UNet",
    "UNetConfig",
    "build_network",
    "evaluation_mode",
    "repeat_for_conditions",
]


def build_network(config: OwnConfig, **layout: Any) -> OwnNetwork:
    """Return a new network of a shape; how it computes are the other arguments of its class."""
    return UNet(config, **layout) if isinstance(config, UNetConfig) else DiT(config, **layout)
