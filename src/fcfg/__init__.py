"""Counterfactual image generation with diffusion models and factored classifier-free guidance.

What would this image look like had one attribute been different, and nothing else? A diffusion
model answers by abduction, action and prediction; this package guides each group of attributes
with a weight of its own.

Nothing heavy is imported until a name is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from fcfg.version import __version__ as __version__

if TYPE_CHECKING:
    from fcfg.attributes import AttributeSpace, Binary, Categorical, Continuous
    from fcfg.checkpoint import load, save
    from fcfg.counterfactual import CounterfactualPipeline
    from fcfg.denoise import Denoiser
    from fcfg.embedder import AttributeEmbedder
    from fcfg.errors import InputError
    from fcfg.graph import CausalGraph, Partition
    from fcfg.guidance import Guidance
    from fcfg.images import to_pictures
    from fcfg.judging import AttributeJudge, Reading
    from fcfg.networks import Judge, JudgeConfig, UNet, UNetConfig
    from fcfg.records import Abduction, Action, Counterfactual
    from fcfg.sampling import BDIA, DDIM, DPMSolver2M, FixedPointDDIM, Heun, StepRecord
    from fcfg.schedule import NoiseSchedule
    from fcfg.scm import StructuralCausalModel

_HOME = {
    "AttributeSpace": "attributes",
    "Binary": "attributes",
    "Categorical": "attributes",
    "Continuous": "attributes",
    "load": "checkpoint",
    "save": "checkpoint",
    "Abduction": "records",
    "Action": "records",
    "Counterfactual": "records",
    "CounterfactualPipeline": "counterfactual",
    "Denoiser": "denoise",
    "AttributeEmbedder": "embedder",
    "InputError": "errors",
    "to_pictures": "images",
    "AttributeJudge": "judging",
    "Reading": "judging",
    "CausalGraph": "graph",
    "Partition": "graph",
    "Guidance": "guidance",
    "Judge": "networks",
    "JudgeConfig": "networks",
    "UNet": "networks",
    "UNetConfig": "networks",
    "BDIA": "sampling",
    "DDIM": "sampling",
    "DPMSolver2M": "sampling",
    "Heun": "sampling",
    "StepRecord": "sampling",
    "FixedPointDDIM": "sampling",
    "NoiseSchedule": "schedule",
    "StructuralCausalModel": "scm",
}

# Rooms that can be named after a plain import, such as fcfg.datasets.
_ROOMS = {
    *_HOME.values(),
    *("batching", "benchmarking", "datasets", "execution", "experiments", "files", "generation"),
    *("images", "mechanisms", "metrics", "reports", "sheet"),
    "training",
}

__all__ = [
    "BDIA",
    "DDIM",
    "Abduction",
    "Action",
    "AttributeEmbedder",
    "AttributeJudge",
    "AttributeSpace",
    "Binary",
    "Categorical",
    "CausalGraph",
    "Continuous",
    "Counterfactual",
    "CounterfactualPipeline",
    "DPMSolver2M",
    "Denoiser",
    "FixedPointDDIM",
    "Guidance",
    "Heun",
    "InputError",
    "Judge",
    "JudgeConfig",
    "NoiseSchedule",
    "Partition",
    "Reading",
    "StepRecord",
    "StructuralCausalModel",
    "UNet",
    "UNetConfig",
    "load",
    "save",
    "to_pictures",
]


def __getattr__(name: str) -> object:
    """Import a public name when it is first used (PEP 562)."""
    if name in _HOME:
        return getattr(import_module(f"fcfg.{_HOME[name]}"), name)
    if name in _ROOMS:
        return import_module(f"fcfg.{name}")
    raise AttributeError(f"module 'fcfg' has no attribute '{name}'")


def __dir__() -> list[str]:
    """Public names, for completion."""
    return [*__all__, "__version__"]
