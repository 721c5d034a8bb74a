"""Networks, independent of the package; any module with the same call can replace them."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, TypeAlias

from torch import nn

from fcfg.diffusion.networks.dit import DiT, DiTConfig
from fcfg.diffusion.networks.judge import Judge, JudgeConfig
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


@contextmanager
def evaluation_mode(module: nn.Module) -> Generator[None]:
    """Switch dropout off, and restore the mode of every submodule afterwards."""
    training = [part for part in module.modules() if part.training]
    for part in training:
        part.training = False
    try:
        yield
    finally:
        for part in training:
            part.training = True
