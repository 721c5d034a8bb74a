r"""Fréchet distance between two sets of features, both modelled as Gaussian.

.. math:: d^2 = \|\mu - \nu\|^2 + \operatorname{tr}\big(S + T - 2 (S T)^{1/2}\big)

With centred features :math:`X` and :math:`Y`, :math:`S = X^\top X / (n-1)` and
:math:`T = Y^\top Y / (m-1)`, the eigenvalues of :math:`(S T)^{1/2}` are the singular values of
:math:`X Y^\top`, divided by :math:`\sqrt{(n-1)(m-1)}`. This needs no matrix root, and none of them
is negative. The distance is called FID only with Inception features, not with those of a judge.

References:
    GANs trained by a two time-scale update rule converge to a local Nash equilibrium (Heusel et
    al., 2017).
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn
from torch.nn import functional

from fcfg.metrics.pixels import PIXEL_RANGE, check_images
from fcfg.metrics.weights import Missing, find_weights, read_weights
from fcfg.support.errors import InputError, check_integer, short
from fcfg.support.images import images_to_bytes
from fcfg.support.tensors import check_finite

_SIZE = 299


def frechet_distance(features: ArrayLike, others: ArrayLike) -> float:
    """Squared Fréchet distance of the Gaussians with the same means and covariances.

    It is 0 for equal features and grows as n shrinks: compare only distances of equal n.

    >>> square = [[0.0, 0.0], [0.0, 2.0], [2.0, 0.0], [2.0, 2.0]]
    >>> round(frechet_distance(square, [[x + 3, y] for x, y in square]), 9)
    9.0
    """
    (mu, x), (nu, y) = map(_moments, check_features(features, others))
    overlap = np.linalg.svd(x @ y.T, compute_uv=False).sum()
    spread = (x**2).sum() + (y**2).sum() - 2 * overlap
    return float(((mu - nu) ** 2).sum() + max(spread, 0.0))


def check_features(
    features: ArrayLike, others: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return two sets of features of one network, or refuse them."""
    x, y = (np.asarray(rows, dtype=np.float64) for rows in (features, others))
    for name, rows in (("features", x), ("others", y)):
        if rows.ndim != 2 or len(rows) < 2 or not np.isfinite(rows).all():
            expected = "finite numbers, one row for each of at least 2 images"
            do = "use more images, at least hundreds; 10,000 are customary"
            raise InputError(name, expected=expected, got=short(rows), do=do)
    (_, one), (_, other) = x.shape, y.shape
    if one != other:
        expected, do = "equally many features on both sides", "compute both with one network"
        raise InputError("features", expected=expected, got=f"{one} and {other}", do=do)
    return x, y


def _moments(features: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean, and a factor of the covariance."""
    mean = features.mean(axis=0)
    factor = np.linalg.qr(features - mean, mode="r")
    return mean, cast(NDArray[np.float64], factor) / np.sqrt(len(features) - 1)


class Inception(nn.Module):
    """The network of FID: images (n, 3, 299, 299), as (byte - 128) / 128, to (n, 2048)."""

    def __init__(self, network: nn.Module, stored: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self.network = network.float().eval()
        check_finite("FID weights", network.state_dict())
        self.about: dict[str, Any] = {  #: description, for records
            "name": "FID",
            "network": "Inception 2015",
            **(stored or {}),
            "range": PIXEL_RANGE,
            "resize": "bytes, then bilinear to 299 x 299",
        }

    @classmethod
    def load(cls, path: str | Path) -> Inception:
        """Read a TorchScript file in half or single precision."""
        network, digest = read_weights("FID", Path(path), _script, "a TorchScript file")
        return cls(network, {"weights": Path(path).name, "sha256": digest})

    @torch.no_grad()
    def features(self, images: Tensor, *, batch_size: int = 64) -> Float[np.ndarray, "n features"]:
        """Compute the features of images of any size in [-1, 1] on the device of the network.

        They are rounded to bytes as in a file; grey images are repeated to three channels.
        """
        check_integer("batch_size", batch_size, 1, 10**9, do="64 is the default")
        x = check_images("images", images)
        if x.shape[1] not in (1, 3):
            do = "choose the channels to compare"
            raise InputError("images", expected="1 or 3 channels", got=f"{x.shape[1]}", do=do)
        device = next(self.network.parameters()).device
        pieces = [self.network(_prepared(piece.to(device))) for piece in x.split(batch_size)]
        return torch.cat(pieces).double().cpu().numpy()


def find_inception(path: str | Path | None = None) -> Inception | Missing:
    """Load the network of FID if its weights are found.

    A path to a file or a folder must have them.
    """
    candidates = [("inception_fid.pt",), ("inception_fid_fp16storage.pt",)]
    how = (
        "inception_fid.pt, the 2015 Inception network as TorchScript from (n, 3, 299, 299) in "
        "[-1, 1] to 2048 features"
    )
    return find_weights("FID", path, candidates, Inception.load, how)


def _prepared(images: Tensor) -> Float[Tensor, "n 3 299 299"]:
    pixels = images_to_bytes(images).to(images.dtype).expand(-1, 3, -1, -1)
    large = functional.interpolate(pixels, size=(_SIZE, _SIZE), mode="bilinear")
    return (large - 128) / 128


def _script(file: BytesIO) -> nn.Module:
    with warnings.catch_warnings():  # TorchScript is deprecated, but FID's weights use it
        warnings.simplefilter("ignore", DeprecationWarning)
        return cast(nn.Module, torch.jit.load(file, map_location="cpu"))
