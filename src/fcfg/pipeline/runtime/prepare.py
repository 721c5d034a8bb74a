"""From a denoiser as it was loaded to one that computes as fast as it may."""

from __future__ import annotations

from copy import deepcopy

import torch
from torch import Tensor, nn

from fcfg.diffusion.denoiser import Denoiser
from fcfg.diffusion.networks import UNet
from fcfg.diffusion.prediction import Evaluate
from fcfg.pipeline.runtime.compiled_batches import CompiledRows
from fcfg.pipeline.runtime.graph_cache import StepRecorder
from fcfg.pipeline.runtime.options import Execution
from fcfg.pipeline.runtime.weights import WeightWatch


def prepare_denoiser(denoiser: Denoiser, execution: Execution) -> StepRecorder | None:
    """Make a denoiser compute otherwise, on the device where it is; the last call counts.

    Its network keeps its weights, digit by digit, so that it can be saved, and prepared otherwise,
    at any time; bf16 is a copy. Whether products may be rounded to TF32 holds for the whole
    process: torch has one switch.

    Args:
        denoiser: On its device.
        execution: How to compute.

    Returns:
        What records steps of this denoiser, on a GPU. Networks of others are not recorded: what
        they do may depend on numbers.
    """
    execution = execution.on(denoiser.device)
    torch.backends.cuda.matmul.allow_tf32 = execution.precision == "tf32"
    torch.backends.cudnn.allow_tf32 = execution.precision == "tf32"
    network = denoiser.network
    _lay_out(network, torch.channels_last)
    rounded = execution.precision == "bf16"
    asked = deepcopy(network).to(torch.bfloat16).eval() if rounded else network
    graphs = execution.cuda_graphs and denoiser.device.type == "cuda"
    compiled = CompiledRows(asked, execution.batch_size, graphs) if execution.compile else None
    denoiser.evaluate = _Rounded(network, asked, compiled or asked) if rounded else compiled
    return StepRecorder(denoiser) if graphs and isinstance(network, UNet) else None


def _lay_out(network: nn.Module, layout: torch.memory_format) -> None:
    """Weights in another order in memory; no number changes."""
    network.to(memory_format=layout)  # pyright: ignore[reportCallIssue] # torch's overloads omit it
    if isinstance(network, UNet):
        network.memory_format = layout


class _Rounded:
    """Asks in bf16 what is asked in float32. Not a module: the copy belongs to nobody else.

    Args:
        network: What was copied; where its weights change, the copy follows.
        copy: In bf16.
        evaluate: What is asked: the copy, or the copy compiled.
    """

    def __init__(self, network: nn.Module, copy: nn.Module, evaluate: Evaluate) -> None:
        self._network, self._copy, self._evaluate = network, copy, evaluate
        self._weights = WeightWatch(network)

    def __call__(self, x: Tensor, t: Tensor, c: Tensor) -> Tensor:
        if self._weights.changed():
            self._copy.load_state_dict(self._network.state_dict())
        return self._evaluate(x.to(torch.bfloat16), t, c.to(torch.bfloat16))
