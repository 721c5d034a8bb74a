"""Checks of a configuration on this machine, before anything is written or computed."""

from __future__ import annotations

from datetime import timedelta

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState, is_initialized
from accelerate.utils import InitProcessGroupKwargs
from torch import Tensor

from fcfg.pipeline.runtime import own_gpu
from fcfg.support.errors import InputError
from fcfg.training.config import TrainingConfig
from fcfg.training.feed import Batch
from fcfg.training.kinds import Inputs
from fcfg.training.objectives import AnyObjective
from fcfg.training.sections import Run


def accelerator_for(run: Run) -> Accelerator:
    """Return an accelerator: placement, data parallelism and autocast."""
    own_gpu()  # raises where there are more processes than GPUs
    on_gpu = torch.cuda.is_available() and run.device == "auto"
    bf16 = run.precision == "bf16" or (run.precision == "auto" and on_gpu)
    autocast, device = "bf16" if bf16 else "no", "cuda" if on_gpu else "cpu"
    if is_initialized():  # Accelerate cannot change these in one process
        state = AcceleratorState()
        before, now = (
            f"{'float32' if precision == 'no' else precision} on {kind}"
            for precision, kind in (
                (state.mixed_precision, state.device.type),
                (autocast, device),
            )
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
    return Accelerator(mixed_precision=autocast, cpu=not on_gpu, kwargs_handlers=[patience])


def check_batches(config: TrainingConfig, processes: int = 1) -> None:
    """Refuse batches that processes cannot share, or that a network cannot take."""
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
                loss_on_meta(part.new_objective(config.inputs), config.inputs, batch // divisor)
        except (RuntimeError, ValueError) as error:
            size = config.data.size
            raise InputError(
                key,
                expected=f"a network that accepts images of {size} × {size} pixels",
                got=error,
                do="change the batch, the size of the images or the network",
            ) from error


def loss_on_meta(objective: AnyObjective, inputs: Inputs, rows: int) -> Tensor:
    """Compute a loss on meta tensors, which have a shape and no memory."""
    shape = (inputs.channels, inputs.size, inputs.size)
    with torch.device("meta"):
        values = torch.empty(rows, sum(inputs.space.widths))
        batch = Batch(torch.empty(rows, *shape), values, torch.empty(rows, 0))
    drawn = objective.draw((1, *shape), torch.Generator())
    return objective(batch, tuple(d.to("meta").expand(rows, *d.shape[1:]) for d in drawn))
