r"""The gain: whether the attributes help a model to predict noise.

Gaps of a network that does not know what its attributes mean say nothing. The gain compares the
error of the predicted noise under the attributes of another image, :math:`c'`, and under its own:

.. math:: \frac{\lVert \epsilon - \epsilon_\theta(x_t, t, c') \rVert^2
    - \lVert \epsilon - \epsilon_\theta(x_t, t, c) \rVert^2}
    {\lVert \epsilon_\theta(x_t, t, c) - \epsilon_\theta(x_t, t, c') \rVert^2}

On average it is 1 for exact predictions, by the theorem of Pythagoras. For a network that was not
trained it is 0, because it cannot tell its own attributes from those of another image.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from fcfg.causal.attributes import Table
from fcfg.diagnosis.additivity import noised
from fcfg.diffusion.denoiser import Denoiser
from fcfg.diffusion.networks import evaluation_mode
from fcfg.metrics import Bootstrap, Estimate, mean, ratio
from fcfg.support.images import image_keys


def measure_gain(
    denoiser: Denoiser,
    images: Float[Tensor, "image channel height width"],
    attributes: Table,
    times: Sequence[int],
    *,
    seed: int = 0,
    batch_size: int = 256,
) -> Estimate:
    """Measure the gain over all times, which count as in the gaps."""
    count = len(images)
    order = np.argsort(image_keys(images))  # so that the order of the images does not matter
    other = np.empty(count, dtype=np.int64)
    other[order] = np.roll(order, 1)
    gained, moved = np.zeros(count), np.zeros(count)
    with torch.no_grad(), evaluation_mode(denoiser):
        for at in noised(denoiser, images, times, seed, batch_size):
            own, swapped = (
                denoiser.condition({name: values[i] for name, values in attributes.items()})
                for i in (np.arange(count)[at.rows], other[at.rows])
            )
            t = torch.full((len(at.x),), at.t, device=at.x.device)
            right, wrong = denoiser(at.x, t, own), denoiser(at.x, t, swapped)
            there, here, apart = (
                (at.level * (a - b)).double().square().flatten(1).sum(dim=1).cpu().numpy()
                for a, b in ((wrong, at.drawn), (right, at.drawn), (right, wrong))
            )
            gained[at.rows] += there - here
            moved[at.rows] += apart
    bootstrap = Bootstrap(count)
    return ratio(gained, moved, bootstrap) if moved.any() else mean(moved, bootstrap)
