"""Size, steps, computation and memory of a run, without running it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from fcfg.datasets.base import Examples
from fcfg.support.progress import in_words
from fcfg.training.config import TrainingConfig
from fcfg.training.feed import Batch, first_batch, scales_of
from fcfg.training.kinds import Part
from fcfg.training.objectives import AnyObjective
from fcfg.training.preflight import check_batches, loss_on_meta

# Bytes per parameter: weights, gradients, two moments and the moving average in float32.
_PARAMETER = 5 * 4
_MIB = 2**20
_PROBED = 8  # images of a step that is timed
_LONG, _LOOK = 600, 300  # seconds from which a first look is offered, and those that it takes
_FEWEST = 100  # steps of a first look


@dataclass(frozen=True)
class Description:
    """The cost of a training run."""

    parameters: int  #: of the image model, without its embedder
    embedder_parameters: int  #: 0 if there is none
    judge_parameters: int
    steps: int | None  #: of the image model; None if the number of images is unknown
    images: int | None  #: number of training images
    later: tuple[Part, ...]  #: parts of the image model after the first
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
            for part in self.later:
                steps += f", then {part.settings.steps:,} of {part.name}"
                steps += f", each {part.settings.cost:g} times as long"
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


def describe(config: TrainingConfig) -> Description:
    """Describe a run, on meta tensors: without memory or computation."""
    check_batches(config)
    training, inputs, saved = config.model, config.inputs, 0
    images = config.data.training_images(config.space)
    if images is None and config.promise is not None:
        images = config.promise.images

    def count(tensor: Tensor) -> Tensor:
        nonlocal saved
        saved += tensor.numel() * tensor.element_size()
        return tensor

    with torch.device("meta"):
        network, judge = training.build(inputs), config.judge.build(inputs)
        objective = training.objective(network)
        hooks = torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor)
        with FlopCounterMode(display=False) as flops, hooks:
            loss_on_meta(objective, inputs, 1).backward()
    all_parameters = _count(network)
    beside = sum(map(_count, training.beside(network).values()))
    # Autograd also saves the parameters: once for all rows of each pass of the network.
    held = 4 * all_parameters * objective.passes
    rows = training.batch // training.accumulate
    return Description(
        parameters=all_parameters - beside,
        embedder_parameters=beside,
        judge_parameters=_count(judge),
        steps=training.length(images),
        images=images,
        later=training.parts[1:],
        flops=flops.get_total_flops() * training.batch,
        weights_bytes=_PARAMETER * all_parameters,
        activation_bytes=max(0, saved - held) * rows,
    )


def expected_time(config: TrainingConfig, examples: Examples, left: Mapping[str, int]) -> str:
    """Say how long the steps that are left take here, from a small step of each network."""
    inputs = replace(config.inputs, factors=scales_of(examples))
    batch = first_batch(examples, _PROBED, inputs.space, inputs.factors, torch.device("cpu"))
    parts, seconds = {name: config.networks[name] for name in left}, 0.0
    with torch.random.fork_rng():  # training draws what it would draw without this
        for name, part in parts.items():
            each = _row_seconds(part.new_objective(inputs), batch) * part.settings.cost
            seconds += each * part.settings.batch * left[name]
    text = f"time: {in_words(seconds)} on this machine"
    if seconds < _LONG:
        return text
    fewer = {name: round(count * _LOOK / seconds) for name, count in left.items() if count}
    if min(fewer.values()) < _FEWEST:
        return f"{text}; take a GPU, or a smaller network and smaller images"
    sets = " ".join(f"--set {parts[name].key}.steps={count}" for name, count in fewer.items())
    return f"{text}; for a first look in {in_words(_LOOK)}: {sets}"


def _row_seconds(objective: AnyObjective, batch: Batch) -> float:
    """Time the second of two steps, forward and backward, and divide by its images."""
    count, channels, height, width = batch.images.shape
    draws, start = objective.draw((count, channels, height, width), torch.Generator()), 0.0
    for _ in range(2):
        start = time.perf_counter()
        objective(batch, draws).backward()
    return (time.perf_counter() - start) / count


def _count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())
