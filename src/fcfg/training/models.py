"""New networks of a configuration; their weights follow from its seed."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import torch

from fcfg.diffusion.denoiser import Denoiser
from fcfg.diffusion.networks import Judge
from fcfg.judge import AttributeJudge
from fcfg.support.errors import InputError
from fcfg.training.config import TrainingConfig
from fcfg.training.diffusion import DenoisingTraining


@contextmanager
def seeded(config: TrainingConfig) -> Generator[None]:
    """Draw weights from the seed of a configuration; other random numbers stay as they are."""
    with torch.random.fork_rng():
        torch.manual_seed(config.seed)
        yield


def new_denoiser(config: TrainingConfig) -> Denoiser:
    """Return the denoiser of a diffusion model; refuse other kinds."""
    model = config.model
    if not isinstance(model, DenoisingTraining):
        raise InputError(
            "model, kind",
            expected="a diffusion model",
            got="one of another kind",
            do="choose another configuration",
        )
    return model.denoiser(config)


def new_judge(config: TrainingConfig, scales: dict[str, tuple[float, float]]) -> AttributeJudge:
    """Return a judge.

    Args:
        config: The configuration.
        scales: Mean and standard deviation of each factor it reads.
    """
    outputs = config.judge_network.outputs + len(scales)
    shape = config.judge_network.model_copy(update={"outputs": outputs})
    with seeded(config):
        return AttributeJudge(Judge(shape), config.space, scales)
