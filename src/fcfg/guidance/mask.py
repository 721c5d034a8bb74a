"""Masks: what a group moves is kept only where it moves most."""

from __future__ import annotations

import torch

from fcfg.guidance.rule import Groups


def largest(differences: Groups, share: float) -> Groups:
    r"""Return each group's difference at its largest pixels, and zeros elsewhere.

    A pixel is kept if :math:`\sum_\text{channels} |\Delta_m|` is not below the quantile ``share``
    of its image and group, so that 0 keeps all. This is the implicit mask of LEDITS++.

    References:
        LEDITS++: limitless image editing using text-to-image models (Brack et al., 2024).
    """
    if share == 0 or not len(differences):
        return differences
    size = differences.abs().sum(dim=2, keepdim=True)
    least = torch.quantile(size.flatten(2), share, dim=2)
    least = least.view(*least.shape, *[1] * (size.ndim - 2))
    return torch.where(size >= least, differences, torch.zeros_like(differences))
