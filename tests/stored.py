"""Images and weights for metrics: those published, where they are, and random ones anywhere."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

SHARED = Path(__file__).parents[2] / "shared" / "data"
_WIDTHS = ((0, 3, 64, 11), (3, 64, 192, 5), (6, 192, 384, 3), (8, 384, 256, 3), (10, 256, 256, 3))


def shared(name: str) -> Path:
    """A published file or folder of data, or a test that is skipped."""
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"no {name} in ../shared/data; it is not part of the project")
    return path


def alexnet(seed: int = 0) -> dict[str, torch.Tensor]:
    """Random tensors, named and shaped as torchvision's AlexNet."""
    generator = torch.Generator().manual_seed(seed)
    tensors = {"classifier.6.bias": torch.zeros(1000)}
    for layer, inner, outer, kernel in _WIDTHS:
        spread = (2 / (inner * kernel**2)) ** 0.5
        tensors[f"features.{layer}.weight"] = spread * torch.randn(
            outer, inner, kernel, kernel, generator=generator
        )
        tensors[f"features.{layer}.bias"] = 0.1 * torch.randn(outer, generator=generator)
    return tensors


def linear_layers(seed: int = 1) -> dict[str, torch.Tensor]:
    """Random tensors, named and shaped as the linear layers of LPIPS."""
    generator = torch.Generator().manual_seed(seed)
    return {
        f"lin{number}.model.1.weight": torch.rand(1, width, 1, 1, generator=generator)
        for number, (_, _, width, _) in enumerate(_WIDTHS)
    }


def images(n: int = 3, channels: int = 3, size: int = 40, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(n, channels, size, size, generator=generator) * 2 - 1
