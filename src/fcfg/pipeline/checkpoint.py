"""Saving and loading models of any kind, see :mod:`fcfg.storage`."""

from __future__ import annotations

import os

from torch import nn

from fcfg.model import AnyModel, CounterfactualModel
from fcfg.pipeline.counterfactual import CounterfactualPipeline
from fcfg.storage import Storage, load_model, read_outline, replaced_files, shipped
from fcfg.support.errors import InputError, check_is

__all__ = ["load", "load_pipeline", "read_outline", "replaced_files", "save", "shipped"]


def save(model: AnyModel, path: str | os.PathLike[str], storage: Storage = "float32") -> None:
    """Write a model to a folder, atomically, as :meth:`fcfg.CounterfactualModel.save` does.

    Args:
        model: The model. Of a network that is not a :class:`fcfg.UNet`, only the weights are
            stored, and :func:`load` needs the module.
        path: The folder, which is created if missing; an older model in it is replaced.
        storage: 'float32', which keeps counterfactuals identical bit by bit, or 'float16', half
            the size. The structural causal model is always stored exactly.
    """
    known = "a fcfg.CounterfactualPipeline or another fcfg.CounterfactualModel"
    check_is("model", model, CounterfactualModel, known)
    model.save(path, storage)


def load(path: str | os.PathLike[str], *, network: nn.Module | None = None) -> AnyModel:
    """Read a model that :func:`save` wrote, onto the CPU.

    Args:
        path: A folder, or the name of a model that comes with the package (see
            :func:`shipped`); a folder of that name is ``./name``.
        network: The module the weights belong to, where it is not a
            :class:`fcfg.diffusion.networks.UNet`.

    Returns:
        Whichever model the folder holds; the shipped ones are
        :class:`fcfg.CounterfactualPipeline`.
    """
    return load_model(path, network)


def load_pipeline(path: str | os.PathLike[str], purpose: str) -> CounterfactualPipeline:
    """Read a diffusion pipeline; refuse other models."""
    model = load(path)
    if isinstance(model, CounterfactualPipeline):
        return model
    raise InputError(
        f"model {path}",
        expected=f"a diffusion model, since {purpose} is about guidance",
        got=f"a model of kind '{model.kind}', which has none",
        do=f"compare its settings with 'fcfg evaluate {path} baselines'",
    )
