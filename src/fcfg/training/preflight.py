"""Before a run: whether this machine can take it, and what it costs.

Nothing is written, and all but the time is found on meta tensors, without memory or computation.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState, is_initialized
from accelerate.utils import InitProcessGroupKwargs
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from fcfg.datasets.base import Examples
from fcfg.pipeline.runtime import own_gpu
from fcfg.support.errors import InputError
from fcfg.support.progress import in_words
from fcfg.training.config import TrainingConfig
from fcfg.training.feed import Batch, first_batch, scales_of
from fcfg.training.kinds import Inputs, Part
from fcfg.training.objectives import AnyObjective
from fcfg.training.sections import Run

# Bytes per parameter: weights, gradients, two moments and the moving average in float32.
_PARAMETER = 5 * 4
_MIB = 2**20
_PROBED = 8  # images of a step that is timed
_LONG, _LOOK = 600, 300  # seconds from which a first look is offered, and those that it takes
_FEWEST = 100  # steps of a first look


def accelerator_for(run: Run) -> Accelerator:
    """Return an accelerator: placement, data parallelism and autocast."""
    own_gpu()  # raises where there are more processes than GPUs
    for name in ("ACCELERATE_USE_FSDP", "ACCELERATE_USE_DEEPSPEED"):
        if os.environ.get(name, "").lower() == "true":  # one process could not write a checkpoint
            expected, do = "data parallelism, or shards of ours", "unset it"
            do += ", and set run.shard=true if memory runs out"
            raise InputError(name, expected=expected, got="true", do=do)
    on_gpu = torch.cuda.is_available() and run.device == "auto"
    bf16 = run.precision == "bf16" or (run.precision == "auto" and on_gpu)
    autocast, device = "bf16" if bf16 else "no", "cuda" if on_gpu else "cpu"
    if is_initialized():  # Accelerate cannot change these in one process
        state = AcceleratorState()
        before, now = (
            f"{'float32' if precision == 'no' else precision} on {kind}"
            for precision, kind in ((state.mixed_precision, state.device.type), (autocast, device))
        )
        if before != now:
            raise InputError(
                "run.precision and run.device",
                expected=f"{before}, as in an earlier run of this process",
                got=now,
                do="train in another process, for example with `fcfg train`",
            )
    # Under autocast, TF32 serves for the products that stay in float32, and torch does not warn.
    torch.backends.cuda.matmul.allow_tf32 = bf16
    patience = InitProcessGroupKwargs(timeout=timedelta(hours=2))  # one process reads all images
    accelerator = Accelerator(mixed_precision=autocast, cpu=not on_gpu, kwargs_handlers=[patience])
    if run.shard and not torch.distributed.is_initialized():
        do = "start it by torchrun, or set run.shard=false"
        raise InputError("run.shard", expected="several processes", got="one", do=do)
    return accelerator


def check_batches(config: TrainingConfig, processes: int = 1) -> None:
    """Refuse batches that processes cannot share, or a network cannot take, and wrong shards."""
    inputs = config.inputs
    for part in config.networks.values():
        key, batch = f"{part.key}.batch", part.settings.batch
        divisor = processes * part.settings.accumulate
        if batch % divisor:
            raise InputError(
                key,
                expected=f"a multiple of {divisor}, for {processes} processes",
                got=batch,
                do=f"--set {key}={max(divisor, batch // divisor * divisor)}",
            )
        try:
            with torch.device("meta"):
                seen, objective = part.trained.seen(inputs), part.new_objective(inputs)
                loss_on_meta(objective, seen, batch // divisor)
        except (RuntimeError, ValueError) as error:
            size = " × ".join([str(inputs.size)] * inputs.dimensions)
            raise InputError(
                key,
                expected=f"a network that accepts images of {size} pixels",
                got=error,
                do="change the batch, the size of the images or the network",
            ) from error
        if config.run.shard and part.name != "judge" and not objective.blocks():
            expected, do = "a network whose loss calls it block by block", "set run.shard=false"
            raise InputError("run.shard", expected=expected, got=f"part {part.name}", do=do)


def loss_on_meta(objective: AnyObjective, inputs: Inputs, rows: int) -> Tensor:
    """Compute a loss on meta tensors, which have a shape and no memory."""
    shape = inputs.image
    with torch.device("meta"):
        values = torch.empty(rows, sum(inputs.space.widths))
        batch = Batch(torch.empty(rows, *shape), values, torch.empty(rows, 0))
    drawn = objective.draw((1, *shape), torch.Generator())
    return objective(batch, tuple(d.to("meta").expand(rows, *d.shape[1:]) for d in drawn))


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
            loss_on_meta(objective, training.seen(inputs), 1).backward()
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
            seen = part.trained.seen(inputs)
            states = batch.images.new_zeros(len(batch.images), *seen.image)
            like = replace(batch, images=states)
            each = _row_seconds(part.new_objective(inputs), like) * part.settings.cost
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
    count, *_ = shape = tuple(batch.images.shape)
    draws, start = objective.draw(shape, torch.Generator()), 0.0
    for _ in range(2):
        start = time.perf_counter()
        objective(batch, draws).backward()
    return (time.perf_counter() - start) / count


def _count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())
