"""Size, steps, computation and memory of a run, without running it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from fcfg.datasets.portraits.data import PortraitsData
from fcfg.diffusion.networks import Judge
from fcfg.training.config import TrainingConfig
from fcfg.training.feed import Batch
from fcfg.training.hvae_objectives import FreeEnergyObjective
from fcfg.training.models import denoising_objective, new_denoiser, new_vae
from fcfg.training.preflight import check_batches

# Bytes per parameter: weights, gradients, two moments and the moving average in float32.
_PARAMETER = 5 * 4
_MIB = 2**20


@dataclass(frozen=True)
class Description:
    """The cost of a training run."""

    parameters: int  #: of the image model, without its embedder
    embedder_parameters: int  #: 0 if there is none
    judge_parameters: int
    steps: int | None  #: of the image model; None if the number of images is unknown
    images: int | None  #: number of training images
    finetuning: int  #: steps of fine-tuning
    flops: int  #: of one step, forward and backward
    weights_bytes: int  #: weights, gradients, optimiser, moving average
    activation_bytes: int  #: saved for the backward pass of one forward pass, in float32

    def lines(self) -> list[str]:
        """Return the description as lines of text."""
        steps = "unknown until the data are there (epochs × images / batch)"
        if self.steps is not None:
            steps = f"{self.steps:,}"
            if self.images is not None:
                steps += f" on {self.images:,} images"
            if self.finetuning:
                steps += f", then {self.finetuning:,} of fine-tuning, which take about three times"
        activations = self.activation_bytes / _MIB
        total = self.weights_bytes / _MIB + activations
        others = f"judge {self.judge_parameters / 1e6:.1f} M"
        if self.embedder_parameters:
            others = f"embedder {self.embedder_parameters:,}, {others}"
        return [
            f"parameters: {self.parameters / 1e6:.1f} M (beside it: {others})",
            f"steps: {steps}",
            f"computation: {self.flops / 1e12:.2f} TFLOP a step",
            f"memory: about {total:,.0f} MiB in float32, {activations:,.0f} MiB of it activations;"
            " bf16 halves these; the images come on top",
        ]


def training_images(config: TrainingConfig) -> int | None:
    """Return the number of training images, from the labels or from the preset."""
    if isinstance(config.data, PortraitsData):
        return config.data.count
    if config.data.path is not None:
        return config.data.listing(config.space).splits.count("train")
    return None if config.promise is None else config.promise.images


def describe(config: TrainingConfig) -> Description:
    """Describe a run, on meta tensors: without memory or computation."""
    check_batches(config)
    images = training_images(config)
    settings = config.hvae or config.diffusion
    known = settings.steps is not None or images is not None
    shape = (1, config.data.channels, config.data.size, config.data.size)
    saved = 0

    def count(tensor: Tensor) -> Tensor:
        nonlocal saved
        saved += tensor.numel() * tensor.element_size()
        return tensor

    with torch.device("meta"):
        if config.hvae is None:
            denoiser = new_denoiser(config)
            objective, embedder = denoising_objective(config, denoiser), _count(denoiser.embedder)
        else:
            objective, embedder = FreeEnergyObjective(new_vae(config), config.hvae.beta), 0
        draws = tuple(drawn.to("meta") for drawn in objective.draw(shape, torch.Generator()))
        judge = Judge(config.judge_network)
        values = torch.empty(1, sum(config.space.widths))
        batch = Batch(torch.empty(shape), values, torch.empty(1, 0))
        hooks = torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor)
        with FlopCounterMode(display=False) as flops, hooks:
            objective(batch, draws).backward()
    all_parameters = _count(objective)
    # Autograd also saves the parameters: once for all rows of each of the two terms of the loss.
    held = 4 * all_parameters * (2 if config.diffusion.independence else 1)
    rows = settings.batch // settings.accumulate
    return Description(
        parameters=all_parameters - embedder,
        embedder_parameters=embedder,
        judge_parameters=_count(judge),
        steps=config.image_steps(images or 0) if known else None,
        images=images,
        finetuning=0 if config.finetuning is None else config.finetuning.steps,
        flops=flops.get_total_flops() * settings.batch,
        weights_bytes=_PARAMETER * all_parameters,
        activation_bytes=max(0, saved - held) * rows,
    )


def _count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())
