"""The judge: an anti-causal classifier that reads attributes from an image (App. A.2).

References:
    Deep residual learning for image recognition (He et al., 2016).
"""

from __future__ import annotations

from jaxtyping import Float
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor, nn
from torch.nn import functional

from fcfg.diffusion.networks.unet import Channels


class JudgeConfig(BaseModel):
    """Shape of a :class:`Judge`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    channels: Channels = 3  #: channels of the image
    outputs: int = Field(default=3, ge=1, le=2**20)
    """Count of predicted numbers: one for each scalar attribute and each level."""
    width: Channels = 64  #: channels of the first stage; 64 is ResNet-18


class Judge(nn.Module):
    """ResNet-18 for small images: a 3×3 stem without pooling, then four stages of two blocks.

    >>> import torch
    >>> judge = Judge(JudgeConfig(outputs=3, width=8))
    >>> judge(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 3])
    """

    def __init__(self, config: JudgeConfig) -> None:
        super().__init__()
        self.config = config
        width = config.width
        self.stem = nn.Sequential(
            nn.Conv2d(config.channels, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
        )
        stages: list[nn.Module] = []
        for stage in range(4):
            out = config.width * 2**stage
            stages += [_BasicBlock(width, out, stride=1 if stage == 0 else 2)]
            stages += [_BasicBlock(out, out, stride=1)]
            width = out
        self.stages = nn.Sequential(*stages)
        self.head = nn.Linear(width, config.outputs)

    def features(
        self, images: Float[Tensor, "batch channel height width"]
    ) -> Float[Tensor, "batch feature"]:
        """Compute the inputs of the last layer: 8·width numbers per image."""
        return self.stages(self.stem(images)).mean(dim=(2, 3))

    def forward(
        self, images: Float[Tensor, "batch channel height width"]
    ) -> Float[Tensor, "batch outputs"]:
        """Predict logits of binary values and levels, and scaled continuous values."""
        return self.head(self.features(images))


class _BasicBlock(nn.Module):
    """Two 3×3 convolutions with batch normalisation, and a shortcut."""

    def __init__(self, width: int, out: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(width, out, 3, stride=stride, padding=1, bias=False),
            nn.BatchNorm2d(out),
            nn.ReLU(),
            nn.Conv2d(out, out, 3, padding=1, bias=False),
            nn.BatchNorm2d(out),
        )
        self.shortcut = (
            nn.Identity()
            if width == out
            else nn.Sequential(
                nn.Conv2d(width, out, 1, stride=stride, bias=False), nn.BatchNorm2d(out)
            )
        )

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(self.shortcut(x) + self.body(x))
