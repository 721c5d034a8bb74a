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
from dataclasses import replace

import torch
from torch import Tensor

from fcfg.causal.scm import Keys, checked_keys
from fcfg.diffusion.denoiser import Denoiser
from fcfg.diffusion.prediction import Images
from fcfg.guidance import Guidance, PathKind
from fcfg.pipeline.batching import plan_on
from fcfg.pipeline.records import Abduction
from fcfg.sampling import OnStep, Path, StepRecord, Trajectory
from fcfg.support.errors import InputError
from fcfg.support.hashing import stream_seed


def draw_noise(
    denoiser: Denoiser,
    images: Images,
    keys: Keys,
    times: Sequence[int],
    on_step: OnStep | None = None,
) -> tuple[Trajectory, Path]:
    """Add noise to images: new at every second time, and its opposite at the next.

    Args:
        denoiser: The denoiser, for its noise levels.
        images: Images in [-1, 1].
        keys: Key of each image.
        times: Ascending times.
        on_step: Callback invoked after every time.

    Returns:
        The images at the last time, and the path to it; on the CPU.
    """
    x = images.to("cpu", denoiser.state_dtype)
    names, states, plan = checked_keys(keys, len(x)), [x], plan_on(denoiser, times)
    for index, step in enumerate(plan):
        second = index % 2  # of a pair of times, with the opposite noise
        noise = [_normal(x.shape[1:], key, times[index + 1 - second]) for key in names]
        signal, level = step.signal_s.cpu(), (-1) ** second * step.noise_s.cpu()
        states.append(signal * x + level * torch.stack(noise).to(x))
        if on_step is not None:
            record = StepRecord(index, len(plan), Trajectory(states[-1]), step.ascending)
            on_step(record)
    return Trajectory(states[-1]), Path(torch.stack(states))


def _normal(shape: torch.Size, key: int | str, t: int) -> Tensor:
    """Draw the noise of one image at one time, the same on every machine and in any precision."""
    generator = torch.Generator().manual_seed(stream_seed("drawn noise", key, t))
    return torch.randn(shape, generator=generator, device="cpu", dtype=torch.float32)


def choose_noise(denoiser: Denoiser, abduction: Abduction, guidance: Guidance) -> Abduction:
    """Return the abduction, or that of the same images with drawn noise if the guidance wants it.

    Args:
        denoiser: The denoiser.
        abduction: The abduction.
        guidance: Guidance of the prediction; one without drawn noise refuses drawn noise.
    """
    if abduction.noise_is_drawn and not guidance.drawn_noise:
        raise InputError(
            "abduction",
            expected=f"inferred noise, for the guidance {guidance}",
            got="drawn noise",
            do="abduct without drawn_noise=True, or add ;anchor=true;drawn_noise=true",
        )
    if abduction.noise_is_drawn or not guidance.drawn_noise:
        return abduction
    assert abduction.path is not None, "the caller refuses abductions without a path"
    image = abduction.path.states[0]
    end, path = draw_noise(denoiser, image, abduction.keys, abduction.times)
    return replace(abduction, trajectory=end, path=path, noise_is_drawn=True, anchor=None)


def check_path(keep: bool, drawn_noise: bool) -> PathKind:
    """Return the kind of path; refuse drawn noise without one, which would not keep the image.

    Args:
        keep: Whether the path is kept.
        drawn_noise: Whether the noise is drawn.
    """
    if drawn_noise and not keep:
        raise InputError(
            "anchor",
            expected="True with drawn_noise=True, since drawn noise serves anchored answers only",
            got="False",
            do="leave one of them out",
        )
    return "drawn" if drawn_noise else "inferred" if keep else "none"
