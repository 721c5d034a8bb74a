"""Networks that know nothing of the package; any other with the same call can replace them."""

from fcfg.diffusion.networks.judge import Judge, JudgeConfig
from fcfg.diffusion.networks.unet import PAPER, UNet, UNetConfig, under_all

__all__ = ["PAPER", "Judge", "JudgeConfig", "UNet", "UNetConfig", "under_all"]
