"""Networks, independent of the package; any module with the same call can replace them."""

from fcfg.diffusion.networks.judge import Judge, JudgeConfig
from fcfg.diffusion.networks.modes import evaluation_mode
from fcfg.diffusion.networks.unet import UNet, UNetConfig, repeat_for_conditions

__all__ = [
    "Judge",
    "JudgeConfig",
    "UNet",
    "UNetConfig",
    "evaluation_mode",
    "repeat_for_conditions",
]
