r"""Drawn noise: anchored predictions without an inversion.

An anchored prediction needs states of the factual image at all times. An abduction infers them,
and they carry its errors. They can be drawn instead, with new noise at every second time:

.. math:: x_t = \sqrt{\alpha_t}\, x_0 + \sqrt{1 - \alpha_t}\, \epsilon_t,
    \qquad \epsilon_t \sim \mathcal N(0, I)

The anchored prediction then adds up differences between the two branches under the same noise.
With DDIM it is FlowEdit for a diffusion model, with one noise per step, from T on, and any rule of
guidance. The denoiser is not called before the prediction. The noise follows from the key of each
image, so the answer does not depend on the other images. A reversal has the same noise, unless it
is asked for another: ``pipeline.reverse(pair, keys=None)``.

The time after a new noise has its opposite. Part of what one noise adds to the answer by chance,
its opposite takes away.

References:
    A new Monte Carlo technique: antithetic variates (Hammersley and Morton, 1956).
    FlowEdit: inversion-free text-based editing using pre-trained flow models (Kulikov et al.,
    2025).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fcfg.causal.scm import Keys
from fcfg.diffusion.prediction import Images
from fcfg.guidance import PathKind
from fcfg.pipeline.batching import Batches
from fcfg.sampling import Path, StepRecord, Trajectory
from fcfg.support.errors import InputError
from fcfg.support.hashing import stream_seed


def draw_noise(
    batches: Batches, x: Images, keys: Keys, times: Sequence[int]
) -> tuple[Trajectory, Path]:
    """Add noise to images: new at every second time, and its opposite at the next.

    Images, or their latents, are on the CPU, and so are those at the last of the ascending times
    and the path to it.
    """
    names, states, plan = list(keys), [x], batches.steps(times)
    for index, step in enumerate(plan):
        second = index % 2  # of a pair of times, with the opposite noise
        noise = [_normal(x.shape[1:], key, times[index + 1 - second]) for key in names]
        signal, level = step.signal_s.cpu(), (-1) ** second * step.noise_s.cpu()
        states.append(signal * x + level * torch.stack(noise).to(x))
        if batches.on_step is not None:
            batches.on_step(StepRecord(index, len(plan), Trajectory(states[-1]), step.ascending))
    return Trajectory(states[-1]), Path(torch.stack(states))


def _normal(shape: torch.Size, key: int | str, t: int) -> Tensor:
    """Draw the noise of one image at one time, the same on every machine and in any precision."""
    generator = torch.Generator().manual_seed(stream_seed("drawn noise", key, t))
    return torch.randn(shape, generator=generator, device="cpu", dtype=torch.float32)


def check_path(keep: bool, drawn_noise: bool) -> PathKind:
    """Return the kind of path; refuse drawn noise without one, which would not keep the image."""
    if drawn_noise and not keep:
        raise InputError(
            "anchor",
            expected="True with drawn_noise=True, since drawn noise serves anchored answers only",
            got="False",
            do="leave one of them out",
        )
    return "drawn" if drawn_noise else "inferred" if keep else "none"
