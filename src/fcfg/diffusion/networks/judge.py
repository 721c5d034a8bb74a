"""The judge: an anti-causal classifier that reads attributes from an image (App. A.2).

References:
    Deep residual learning for image recognition (He et al., 2016).
"""

from __future__ import annotations

from typing import TypeAlias

from jaxtyping import Float
from pydantic import BaseModel, Field
from torch import Tensor, nn
from torch.nn import functional

from fcfg.diffusion.networks.unet import Channels

Images: TypeAlias = Float[Tensor, "batch channel *size"]

_CONVOLUTIONS = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
_NORMS = {1: nn.BatchNorm1d, 2: nn.BatchNorm2d, 3: nn.BatchNorm3d}


class JudgeConfig(BaseModel, frozen=True, extra="forbid"):
    """Shape of a :class:`Judge`."""

    channels: Channels = 3  #: channels of the image
    outputs: int = Field(default=3, ge=1, le=2**20)
    """Count of predicted numbers: one for each scalar attribute and each level."""
    width: Channels = 64  #: channels of the first stage; 64 is ResNet-18
    dimensions: int = Field(default=2, ge=1, le=3)  #: axes of an image beside its channels


class Judge(nn.Module):
    """ResNet-18 for small images: a stem without pooling, then four stages of two blocks.

    >>> import torch
    >>> judge = Judge(JudgeConfig(outputs=3, width=8))
    >>> judge(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 3])
    """

    def __init__(self, config: JudgeConfig) -> None:
        super().__init__()
        self.config = config
        width, dimensions = config.width, config.dimensions
        self.stem = nn.Sequential(
            _CONVOLUTIONS[dimensions](config.channels, width, 3, padding=1, bias=False),
            _NORMS[dimensions](width),
            nn.ReLU(),
        )
        stages: list[nn.Module] = []
        for stage in range(4):
            out = config.width * 2**stage
            stages += [_BasicBlock(dimensions, width, out, stride=1 if stage == 0 else 2)]
            stages += [_BasicBlock(dimensions, out, out, stride=1)]
            width = out
        self.stages = nn.Sequential(*stages)
        self.head = nn.Linear(width, config.outputs)

    def features(self, images: Images) -> Float[Tensor, "batch feature"]:
        """Compute the inputs of the last layer: 8·width numbers per image."""
        deep = self.stages(self.stem(images))
        return deep.mean(dim=tuple(range(2, deep.ndim)))

    def forward(self, images: Images) -> Float[Tensor, "batch outputs"]:
        """Predict logits of binary values and levels, and scaled continuous values."""
        return self.head(self.features(images))


class _BasicBlock(nn.Module):
    """Two convolutions of width 3 with batch normalisation, and a shortcut."""

    def __init__(self, dimensions: int, width: int, out: int, stride: int) -> None:
        super().__init__()
        convolution, norm = _CONVOLUTIONS[dimensions], _NORMS[dimensions]
        self.body = nn.Sequential(
            convolution(width, out, 3, stride=stride, padding=1, bias=False),
            norm(out),
            nn.ReLU(),
            convolution(out, out, 3, padding=1, bias=False),
            norm(out),
        )
        self.shortcut = (
            nn.Identity()
            if width == out
            else nn.Sequential(convolution(width, out, 1, stride=stride, bias=False), norm(out))
        )

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(self.shortcut(x) + self.body(x))
