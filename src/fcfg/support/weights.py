"""Weights of networks, from a file or from a caller."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from fcfg.support.errors import InputError


def check_finite(subject: str, tensors: Mapping[str, Tensor]) -> None:
    """Refuse NaN and infinity, and name the first tensor that has some."""
    for name, tensor in tensors.items():
        # The extremes are NaN if any number is; ten times as fast as isfinite of each.
        if tensor.numel() and not all(bool(end.isfinite()) for end in tensor.aminmax()):
            got = f"NaN or infinity in '{name}'"
            do = "take another copy of the file, or look for a training that diverged"
            raise InputError(subject, expected="finite numbers", got=got, do=do)
