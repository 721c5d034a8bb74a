"""Preparation of a denoiser: precision, memory layout, compilation, CUDA graphs."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from fcfg.diffusion.denoiser import Denoiser, Evaluate
from fcfg.diffusion.networks import OwnNetwork, UNet
from fcfg.pipeline.runtime.compiled_batches import CompiledRows
from fcfg.pipeline.runtime.cuda_graphs import StepRecorder, WeightWatch
from fcfg.support.errors import check_among, check_integer, check_is

PRECISIONS = ("auto", "float32", "tf32", "bf16")


@dataclass(frozen=True)
class Execution:
    """How a network computes. The sampler's state is always float32.

    >>> Execution().on("cuda").precision, Execution().on("cpu").precision
    ('tf32', 'float32')
    """

    #: 'float32' leaves the network as it is; 'tf32' rounds the factors of its products, on a GPU;
    #: 'bf16' rounds weights and activations; 'auto' is tf32 on a GPU and float32 elsewhere.
    precision: str = "auto"
    compile: bool = False  #: with torch.compile: takes minutes at first, worth it on a GPU
    batch_size: int = 256  #: largest compiled batch
    cuda_graphs: bool = True  #: replay whole steps as CUDA graphs, with few images on a GPU

    def __post_init__(self) -> None:
        check_among("precision", self.precision, PRECISIONS)
        for name in ("compile", "cuda_graphs"):
            check_is(name, getattr(self, name), bool, "True or False")
        check_integer("batch_size", self.batch_size, 1, 10**9, do="256 is the default")

    def on(self, device: torch.device | str) -> Execution:
        """Resolve the precision for a device: only a GPU has TF32."""
        on_gpu = torch.device(device).type == "cuda"
        if self.precision in ("auto", "tf32"):
            return replace(self, precision="tf32" if on_gpu else "float32")
        return self


def prepare_denoiser(denoiser: Denoiser, execution: Execution) -> StepRecorder | None:
    """Change how a denoiser computes, on its device; the last call counts.

    Its network keeps its exact weights, so that it can be saved, or prepared again, at any time;
    bf16 uses a copy. It sets torch's switches for TF32, those of the whole process.

    Returns:
        The recorder of steps, on a GPU. Only steps of our networks are recorded: the computation
        of other ones may depend on numbers.
    """
    execution = execution.on(denoiser.device)
    torch.backends.cuda.matmul.allow_tf32 = execution.precision == "tf32"
    torch.backends.cudnn.allow_tf32 = execution.precision == "tf32"
    network = denoiser.network
    if denoiser.dimensions == 2:
        network.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue] # torch's overloads omit it
    if isinstance(network, UNet):
        network.memory_format = torch.channels_last
    rounded = execution.precision == "bf16"
    used = deepcopy(network).to(torch.bfloat16).eval() if rounded else network
    graphs = execution.cuda_graphs and denoiser.device.type == "cuda"
    compiled = CompiledRows(used, execution.batch_size, graphs) if execution.compile else None
    denoiser.evaluate = _Rounded(network, used, compiled or used) if rounded else compiled
    return StepRecorder(denoiser) if graphs and isinstance(network, OwnNetwork) else None


class _Rounded:
    """Evaluates a bf16 copy of a float32 network. Not a module, so that the copy is not saved."""

    def __init__(self, network: nn.Module, copy: nn.Module, evaluate: Evaluate) -> None:
        self._network, self._copy, self._evaluate = network, copy, evaluate
        self._weights = WeightWatch(network)

    def __call__(self, x: Tensor, t: Tensor, c: Tensor) -> Tensor:
        if self._weights.changed():
            self._copy.load_state_dict(self._network.state_dict())
        return self._evaluate(x.to(torch.bfloat16), t, c.to(torch.bfloat16))
