r"""LPIPS: distance between the features of two images in a network.

.. math:: d(x, y) = \sum_\ell \frac{1}{H_\ell W_\ell} \sum_{h,w}
    \big\| w_\ell \odot (\hat\phi_\ell(x)_{hw} - \hat\phi_\ell(y)_{hw}) \big\|_2^2

:math:`\hat\phi_\ell` are the features of AlexNet after its :math:`\ell`-th ReLU, normalised over
channels. The weights :math:`w_\ell^2`, stored in linear layers, were fitted to human judgements.
This is version 0.1.

References:
    The unreasonable effectiveness of deep features as a perceptual metric (Zhang et al., 2018).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from fcfg.metrics.pixels import PIXEL_RANGE, check_alike
from fcfg.metrics.weights import Missing, find_weights, read_weights
from fcfg.support.errors import InputError, quoted
from fcfg.support.tensors import check_finite

_SHIFT, _SCALE = (-0.030, -0.088, -0.188), (0.458, 0.448, 0.450)
_LAYERS = ((64, 11, 4, 2), (192, 5, 1, 2), (384, 3, 1, 1), (256, 3, 1, 1), (256, 3, 1, 1))
SMALLEST = 32  #: smallest height and width that AlexNet accepts
_ALEXNET, _LINEAR = "alexnet-owt-7be5be79.pth", "alex.pth"


class LPIPS(nn.Module):
    """AlexNet's features after each ReLU, and a weight for each of their channels.

    Args:
        weights: Tensors named as published: ``features.{0,3,6,8,10}.{weight,bias}`` and
            ``lin{0..4}.model.1.weight``; others, such as AlexNet's classifier, are ignored.
        stored: Description of the weights, for records.
    """

    shift: Tensor
    scale: Tensor

    def __init__(
        self, weights: Mapping[str, Tensor], stored: Mapping[str, str] | None = None
    ) -> None:
        super().__init__()
        layers, before = list[nn.Module](), 3
        for width, kernel, stride, padding in _LAYERS:
            layers += [nn.Conv2d(before, width, kernel, stride, padding), nn.ReLU()]
            if len(layers) < 6:
                layers.append(nn.MaxPool2d(3, 2))
            before = width
        self.features = nn.Sequential(*layers)
        self.linear = nn.ParameterList(torch.zeros(1, width, 1, 1) for width, *_ in _LAYERS)
        self.load_state_dict(_named(weights, self.state_dict()))
        check_finite("LPIPS weights", self.state_dict())
        for name, values in (("shift", _SHIFT), ("scale", _SCALE)):
            self.register_buffer(name, torch.tensor(values)[:, None, None])
        self.eval().requires_grad_(False)
        self.about: dict[str, Any] = {  #: description, for records
            "name": "LPIPS",
            "network": "AlexNet v0.1",
            **(stored or {}),
            "range": PIXEL_RANGE,
        }

    @classmethod
    def load(cls, path: str | Path, linear: str | Path | None = None) -> LPIPS:
        """Read the weights from one file or from two.

        Args:
            path: File with backbone and linear layers, or with torchvision's AlexNet alone.
            linear: File with the linear layers, ``alex.pth`` of the lpips package.
        """
        paths = [Path(path)] + ([] if linear is None else [Path(linear)])
        found = [
            read_weights("LPIPS", file, _tensors, "a file of tensors, by torch.save")
            for file in paths
        ]
        weights = {name: tensor for tensors, _ in found for name, tensor in tensors.items()}
        names = " + ".join(file.name for file in paths)
        return cls(weights, {"weights": names, "sha256": " + ".join(of for _, of in found)})

    def forward(self, images: Tensor, others: Tensor) -> Float[Tensor, "n"]:
        """Distance of each pair of images; 0 if they are equal.

        Images are in [-1, 1], at least 32 by 32 pixels, and not resized; grey ones are repeated.
        """
        x, y = (self._scaled(z) for z in check_alike(images=images, others=others))
        total = x.new_zeros(len(x))
        for a, b, weight in zip(self._taps(x), self._taps(y), self.linear, strict=True):
            total = total + ((a - b) ** 2 * weight).sum(dim=1).mean(dim=(1, 2))
        return total

    def _scaled(self, images: Tensor) -> Float[Tensor, "n 3 height width"]:
        _, channels, height, width = images.shape
        if channels not in (1, 3) or min(height, width) < SMALLEST:
            expected = f"1 or 3 channels, at least {SMALLEST} by {SMALLEST} pixels"
            got = f"shape {tuple(images.shape)}"
            do = "smaller images have no LPIPS; use the mean absolute error"
            raise InputError("LPIPS, images", expected=expected, got=got, do=do)
        rgb = images.to(self.shift).expand(-1, 3, -1, -1)
        return (rgb - self.shift) / self.scale

    def _taps(self, x: Tensor) -> Iterator[Float[Tensor, "n width h w"]]:
        for layer in self.features:
            x = layer(x)
            if isinstance(layer, nn.ReLU):
                yield x / (x.square().sum(dim=1, keepdim=True).sqrt() + 1e-10)


def find_lpips(path: str | Path | None = None) -> LPIPS | Missing:
    """Load LPIPS if its weights are found.

    A path to a file or a folder must have them.
    """
    package = find_spec("lpips")  # not imported, since it imports torchvision
    inside = [] if package is None else package.submodule_search_locations or []
    candidates = [
        ("lpips_alex_full.pt",),
        (_ALEXNET, _LINEAR),
        *((_ALEXNET, Path(folder).absolute() / "weights" / "v0.1" / _LINEAR) for folder in inside),
    ]
    how = (
        f"lpips_alex_full.pt, or with torchvision's {_ALEXNET} and {_LINEAR} of the lpips package "
        "(weights/v0.1)"
    )
    return find_weights("LPIPS", path, candidates, LPIPS.load, how)


def _tensors(file: BytesIO) -> dict[str, Tensor]:
    values = torch.load(file, map_location="cpu", weights_only=True)
    return {name: value for name, value in values.items() if isinstance(value, Tensor)}


def _named(weights: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Select the published tensors by our names, or refuse weights that lack some."""
    published = {re.sub(r"linear\.(\d)", r"lin\1.model.1.weight", name): name for name in wanted}
    wrong = [
        name
        for name, ours in published.items()
        if name not in weights or weights[name].shape != wanted[ours].shape
    ]
    if wrong:
        raise InputError(
            "LPIPS weights",
            expected=f"AlexNet's tensors and those of five linear layers, {len(published)} in all",
            got=f"none of the right shape for {quoted(wrong[:3])}"
            + (f" and {len(wrong) - 3} more" if len(wrong) > 3 else ""),
            do="give torchvision's AlexNet together with alex.pth of the lpips package",
        )
    return {ours: weights[name] for name, ours in published.items()}
