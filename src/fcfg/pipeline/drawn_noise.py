r"""Drawn noise: anchored predictions without an inversion.

An anchored prediction needs states of the factual image at all times. An abduction infers them,
and they carry its errors. They can be drawn instead, with independent noise at every time:

.. math:: x_t = \sqrt{\alpha_t}\, x_0 + \sqrt{1 - \alpha_t}\, \epsilon_t,
    \qquad \epsilon_t \sim \mathcal N(0, I)

The anchored prediction then adds up differences between the two branches under the same noise.
With DDIM it is FlowEdit, for any rule of guidance. No network is called before the prediction. The
noise follows from the key of each image, so the answer does not depend on the other images, and a
reversal has the same noise.

References:
    FlowEdit: inversion-free text-based editing using pre-trained flow models (Kulikov et al.,
    2025).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from fcfg.causal.scm import Keys
from fcfg.diffusion.denoiser import Denoiser
from fcfg.diffusion.prediction import Images
from fcfg.guidance import Guidance
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
    """Add noise to images, at every time for itself.

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
    states, plan = [x], plan_on(denoiser, times)
    for index, step in enumerate(plan):
        seeds = [stream_seed("drawn noise", str(key), times[index + 1]) for key in keys]
        noise = [
            torch.randn(x.shape[1:], generator=torch.Generator().manual_seed(seed))
            for seed in seeds
        ]
        signal, level = step.signal_s.cpu(), step.noise_s.cpu()
        states.append(signal * x + level * torch.stack(noise).to(x))
        if on_step is not None:
            record = StepRecord(index, len(plan), Trajectory(states[-1]), plan.ascending)
            on_step(record)
    return Trajectory(states[-1]), Path(torch.stack(states))


def choose_noise(denoiser: Denoiser, abduction: Abduction, guidance: Guidance) -> Abduction:
    """Return the abduction, or that of the same images with drawn noise if the guidance wants it.

    Args:
        denoiser: The denoiser.
        abduction: The abduction, which keeps the drawn one for all questions.
        guidance: Guidance of the prediction; drawn noise alone does not serve other ones.
    """
    if abduction.drawn and not guidance.drawn:
        raise InputError(
            "abduction",
            expected=f"inferred noise, for the guidance {guidance}",
            got="drawn noise",
            do="abduct without drawn=True, or add ;anchor=true;drawn=true to the guidance",
        )
    if abduction.drawn or not guidance.drawn:
        return abduction
    if not abduction.twins:
        assert abduction.path is not None, "the caller refuses abductions without a path"
        image = abduction.path.states[0]
        end, path = draw_noise(denoiser, image, abduction.keys, abduction.times)
        abduction.twins.append(replace(abduction, trajectory=end, path=path, drawn=True))
    return abduction.twins[0]
