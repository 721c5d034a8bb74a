"""Which GPU is that of a process, among those that were started together."""

from __future__ import annotations

import os

import torch

from fcfg.support.errors import InputError


def own_gpu() -> int:
    """The number of this process on its machine, and of its GPU, if there are any.

    ``torchrun`` and ``accelerate launch`` count them.

    Raises:
        InputError: If there are more processes than GPUs.
    """
    number, gpus = int(os.environ.get("LOCAL_RANK", "0")), torch.cuda.device_count()
    processes = int(os.environ.get("LOCAL_WORLD_SIZE", number + 1))
    if processes > gpus > 0:
        raise InputError(
            "processes on this machine",
            expected=f"at most {gpus}, one for each GPU",
            got=processes,
            do="start fewer, or hide the GPUs by CUDA_VISIBLE_DEVICES=",
        )
    return number
