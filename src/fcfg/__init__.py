"""Counterfactual image generation with diffusion models and factored classifier-free guidance.

What would this image look like had one attribute been different, and nothing else? A diffusion
model answers by abduction, action and prediction; this package gives each group of attributes its
own guidance weight.

Nothing heavy is imported until a name is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from fcfg.version import __version__ as __version__

if TYPE_CHECKING:
    from fcfg.calibration import calibrate
    from fcfg.causal.attributes import AttributeSpace, Binary, Categorical, Continuous
    from fcfg.causal.graph import CausalGraph, Partition
    from fcfg.causal.scm import StructuralCausalModel
    from fcfg.diffusion.codec import Autoencoder
    from fcfg.diffusion.conditioners import AttributeTokens, Lookup, Phrases
    from fcfg.diffusion.denoiser import Denoiser
    from fcfg.diffusion.embedder import AttributeEmbedder
    from fcfg.diffusion.networks import DiT, DiTConfig, Judge, JudgeConfig, UNet, UNetConfig
    from fcfg.diffusion.schedule import NoiseSchedule
    from fcfg.guidance import Guidance
    from fcfg.integrations.wrapping import wrap, wrap_pipeline
    from fcfg.judge import AttributeJudge, Reading
    from fcfg.model import Action, CounterfactualModel, load, save
    from fcfg.pipeline.calibration import Calibration
    from fcfg.pipeline.counterfactual import CounterfactualPipeline
    from fcfg.pipeline.records import Abduction, Counterfactual
    from fcfg.sampling import BDIA, DDIM, DPMSolver2M, FixedPointDDIM, Heun, StepRecord
    from fcfg.support.errors import InputError
    from fcfg.support.images import to_pictures

_NAMES = {
    "calibration": ("calibrate",),
    "causal.attributes": ("AttributeSpace", "Binary", "Categorical", "Continuous"),
    "causal.graph": ("CausalGraph", "Partition"),
    "causal.scm": ("StructuralCausalModel",),
    "diffusion.codec": ("Autoencoder",),
    "diffusion.conditioners": ("AttributeTokens", "Lookup", "Phrases"),
    "diffusion.denoiser": ("Denoiser",),
    "diffusion.embedder": ("AttributeEmbedder",),
    "diffusion.networks": ("DiT", "DiTConfig", "Judge", "JudgeConfig", "UNet", "UNetConfig"),
    "diffusion.schedule": ("NoiseSchedule",),
    "guidance": ("Guidance",),
    "integrations.wrapping": ("wrap", "wrap_pipeline"),
    "judge": ("AttributeJudge", "Reading"),
    "model": ("Action", "CounterfactualModel", "load", "save"),
    "pipeline.calibration": ("Calibration",),
    "pipeline.counterfactual": ("CounterfactualPipeline",),
    "pipeline.records": ("Abduction", "Counterfactual"),
    "sampling": ("BDIA", "DDIM", "DPMSolver2M", "FixedPointDDIM", "Heun", "StepRecord"),
    "support.errors": ("InputError",),
    "support.images": ("to_pictures",),
}
_HOME = {name: module for module, names in _NAMES.items() for name in names}

# Rooms that can be used after a plain import, such as fcfg.datasets.
_ROOMS = (
    *("answers", "bench", "calibration", "causal", "datasets", "diagnosis", "diffusion"),
    *("evaluation", "generation", "guidance", "judge", "metrics", "model", "pipeline", "reports"),
    *("sampling", "sheet", "storage", "studio", "support", "training", "trust"),
)

__all__ = [
    "BDIA",
    "DDIM",
    "Abduction",
    "Action",
    "AttributeEmbedder",
    "AttributeJudge",
    "AttributeSpace",
    "AttributeTokens",
    "Autoencoder",
    "Binary",
    "Calibration",
    "Categorical",
    "CausalGraph",
    "Continuous",
    "Counterfactual",
    "CounterfactualModel",
    "CounterfactualPipeline",
    "DPMSolver2M",
    "Denoiser",
    "DiT",
    "DiTConfig",
    "FixedPointDDIM",
    "Guidance",
    "Heun",
    "InputError",
    "Judge",
    "JudgeConfig",
    "Lookup",
    "NoiseSchedule",
    "Partition",
    "Phrases",
    "Reading",
    "StepRecord",
    "StructuralCausalModel",
    "UNet",
    "UNetConfig",
    "calibrate",
    "load",
    "save",
    "to_pictures",
    "wrap",
    "wrap_pipeline",
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
    return [*__all__, *_ROOMS, "__version__"]
