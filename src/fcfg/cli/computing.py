"""Options that commands share: device, shard and batch size."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from fcfg.support.errors import InputError, check_among, check_integer

if TYPE_CHECKING:
    from fcfg.model import AnyModel

AUTO = "auto"


def chosen_device(name: str) -> str:
    """Return 'cpu' or 'cuda', and select the GPU of this process."""
    import torch

    from fcfg.pipeline.runtime import own_gpu

    check_among("device", name, (AUTO, "cpu", "cuda"))
    if name == "cuda" and not torch.cuda.is_available():
        raise InputError(
            "device",
            expected="cpu or auto, since torch finds no GPU here",
            got=repr(name),
            do="leave --device out",
        )
    device = ("cuda" if torch.cuda.is_available() else "cpu") if name == AUTO else name
    torch.cuda.set_device(own_gpu() if device == "cuda" else -1)
    return device


def chosen_shard(text: str) -> tuple[int, int]:
    """Return number and count of a shard.

    Args:
        text: I/N; if empty, the number of this process among those that ``accelerate launch`` or
            ``torchrun`` started.
    """
    if not text:
        return _from_environment("RANK", "0"), _from_environment("WORLD_SIZE", "1")
    number, slash, count = text.partition("/")
    if slash and number.isdecimal() and count.isdecimal():
        return int(number), int(count)
    raise InputError("--shard", expected="I/N, such as 0/4", got=repr(text), do="count from 0")


def _from_environment(name: str, default: str) -> int:
    text = os.environ.get(name, default)
    if text.isdecimal():
        return int(text)
    raise InputError(name, expected="a number", got=repr(text), do="unset this variable")


def check_sampled(model: AnyModel, options: Mapping[str, object]) -> None:
    """Refuse options of sampling for a model that has none.

    Args:
        model: The model.
        options: Values by name; None where an option is not given.
    """
    given = [name for name, value in options.items() if value is not None]
    if given and model.method(()).sampling is None:
        raise InputError(
            given[0],
            expected=f"none with a model of kind {model.kind}, which has no steps",
            got=options[given[0]],
            do="leave it out",
        )


def chosen_rows(text: str, model: AnyModel, size: tuple[int, int]) -> int:
    """Return the largest number of network rows per call.

    Args:
        text: A number, or 'auto': what fits the memory, and 256 where that is not known.
        model: Model on its device, in its precision, not compiled yet.
        size: Height and width of the images.
    """
    from fcfg.pipeline.counterfactual import CounterfactualPipeline
    from fcfg.pipeline.runtime import fitting_rows

    if text == AUTO:
        known = isinstance(model, CounterfactualPipeline)
        return fitting_rows(model.denoiser, size) if known else 256
    number = int(text) if text.isdecimal() else text
    return check_integer("--batch-size", number, 1, 10**9, do="or 'auto', as much as fits")
