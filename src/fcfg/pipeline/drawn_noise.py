r"""Drawn noise: anchored predictions without an inversion.

An anchored prediction needs states of the factual image at all times. An abduction infers them,
and they carry its errors. They can be drawn instead, by default with new noise at every second
time:

.. math:: x_t = \sqrt{\alpha_t}\, x_0 + \sqrt{1 - \alpha_t}\, \epsilon_t,
    \qquad \epsilon_t \sim \mathcal N(0, I)

The anchored prediction then adds up differences between the two branches under the same noise.
With DDIM it is FlowEdit for a diffusion model, and with DDPM it is edit-friendly DDPM inversion,
under any rule of guidance. The denoiser is not called before the prediction. The noise follows
from the key of each image, so the answer does not depend on the other images. A reversal has the
same noise, unless it is asked for another: ``pipeline.reverse(pair, keys=None)``.

The time after a new noise has its opposite. Part of what one noise adds to the answer by chance,
its opposite takes away. :class:`~fcfg.guidance.Drawing` has the other choices: independent noises,
one noise for all times, and several noises at each time.

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
from fcfg.guidance import Drawing, PathKind
from fcfg.pipeline.batching import Batches
from fcfg.sampling import Path, StepRecord, Trajectory
from fcfg.support.errors import InputError
from fcfg.support.hashing import stream_seed


def draw_noise(
    batches: Batches, x: Images, keys: Keys, times: Sequence[int], drawing: Drawing
) -> tuple[Trajectory, Path]:
    """Add noise to images: by default new at every second time, and its opposite at the next.

    Images, or their latents, are on the CPU, and so are those at the last of the ascending times
    and the path to it.
    """
    names, plan, count = list(keys), batches.steps(times), drawing.noises
    states = [x[:, None].repeat_interleave(count, dim=1)]
    for index, step in enumerate(plan):
        second = index % 2 if drawing.correlation == -1 else 0  # of a pair, the opposite noise
        t = 0 if drawing.correlation == 1 else times[index + 1 - second]
        noise = [_normal(x.shape[1:], key, t, number) for key in names for number in range(count)]
        signal, level = step.signal_s.cpu(), (-1) ** second * step.noise_s.cpu()
        noise = torch.stack(noise).to(x).unflatten(0, (len(names), count))
        states.append(signal * x[:, None] + level * noise)
        if batches.on_step is not None:
            record = StepRecord(index, len(plan), Trajectory(states[-1][:, 0]), step.ascending)
            batches.on_step(record)
    path = torch.stack(states)
    further = None if count == 1 else path[:, :, 1:]
    return Trajectory(states[-1][:, 0]), Path(path[:, :, 0], further=further)


def _normal(shape: torch.Size, key: int | str, t: int, number: int) -> Tensor:
    """Draw a noise of one image at one time, the same on every machine and in any precision."""
    stream = ("drawn noise", key, t, number) if number else ("drawn noise", key, t)
    generator = torch.Generator().manual_seed(stream_seed(*stream))
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
