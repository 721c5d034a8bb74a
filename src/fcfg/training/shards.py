"""Weights in shards: each process keeps its rows of every tensor, and gathers a block at a time.

Gradients, moments of the optimiser and averages have the shards of their weights. Checkpoints hold
whole tensors, whatever the number of processes.

References:
    PyTorch FSDP: experiences on scaling fully sharded data parallel (Zhao et al., 2023).
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from accelerate import Accelerator
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from fcfg.training.objectives import AnyObjective


def shard(objective: AnyObjective, accelerator: Accelerator) -> None:
    """Divide the weights of an objective among the processes, on their devices.

    Outside its calls, the parameters of the objective are shards. They are gathered again after
    each pass, so a validation never sees weights of a step before.
    """
    mesh = init_device_mesh(accelerator.device.type, (accelerator.num_processes,))
    for module in (*objective.blocks(), objective):
        fully_shard(module, mesh=mesh, reshard_after_forward=True)


def local(tensor: Tensor) -> Tensor:
    """Return the shard of this process, or a whole tensor as it is; the memory is the same."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def whole(tensor: Tensor) -> Tensor:
    """Gather a tensor from its shards; all processes must ask."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def whole_tensors(tensors: Mapping[str, Tensor], *, keep: bool) -> dict[str, Tensor]:
    """Gather tensors one by one and keep them in the main memory, or keep none."""
    gathered = ((name, whole(tensor)) for name, tensor in tensors.items())
    return {name: tensor.cpu() for name, tensor in gathered if keep}


def placed(tensor: Tensor, like: Tensor) -> Tensor:
    """Return a whole tensor with the device, the memory layout and the shards of another one."""
    if isinstance(like, DTensor):
        every = tensor.to(like.device)  # all processes have it, so nothing is sent
        return distribute_tensor(every, like.device_mesh, like.placements, src_data_rank=None)
    return torch.empty_like(like).copy_(tensor)


def fill(module: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Load whole tensors into a module, which may have shards of them."""
    state = module.state_dict()
    module.load_state_dict(
        {
            name: placed(tensor, state[name]) if isinstance(state.get(name), DTensor) else tensor
            for name, tensor in tensors.items()
        }
    )
