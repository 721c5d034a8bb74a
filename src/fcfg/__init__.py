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
    from fcfg.calibration import calibrate as calibrate
    from fcfg.calibration import compare_methods as compare_methods
    from fcfg.causal.attributes import AttributeSpace as AttributeSpace
    from fcfg.causal.attributes import Binary as Binary
    from fcfg.causal.attributes import Categorical as Categorical
    from fcfg.causal.attributes import Continuous as Continuous
    from fcfg.causal.graph import CausalGraph as CausalGraph
    from fcfg.causal.graph import Partition as Partition
    from fcfg.causal.scm import StructuralCausalModel as StructuralCausalModel
    from fcfg.diffusion.codec import Autoencoder as Autoencoder
    from fcfg.diffusion.conditioners import AttributeTokens as AttributeTokens
    from fcfg.diffusion.conditioners import Lookup as Lookup
    from fcfg.diffusion.conditioners import Phrases as Phrases
    from fcfg.diffusion.denoiser import Denoiser as Denoiser
    from fcfg.diffusion.embedder import AttributeEmbedder as AttributeEmbedder
    from fcfg.diffusion.networks import DiT as DiT
    from fcfg.diffusion.networks import DiTConfig as DiTConfig
    from fcfg.diffusion.networks import Judge as Judge
    from fcfg.diffusion.networks import JudgeConfig as JudgeConfig
    from fcfg.diffusion.networks import UNet as UNet
    from fcfg.diffusion.networks import UNetConfig as UNetConfig
    from fcfg.diffusion.schedule import NoiseSchedule as NoiseSchedule
    from fcfg.guidance import Guidance as Guidance
    from fcfg.integrations.wrapping import wrap as wrap
    from fcfg.integrations.wrapping import wrap_pipeline as wrap_pipeline
    from fcfg.judge import AttributeJudge as AttributeJudge
    from fcfg.judge import Reading as Reading
    from fcfg.model import Action as Action
    from fcfg.model import CounterfactualModel as CounterfactualModel
    from fcfg.model import load as load
    from fcfg.model import save as save
    from fcfg.pipeline.calibration import Calibration as Calibration
    from fcfg.pipeline.counterfactual import CounterfactualPipeline as CounterfactualPipeline
    from fcfg.pipeline.records import Abduction as Abduction
    from fcfg.pipeline.records import Counterfactual as Counterfactual
    from fcfg.sampling import BDIA as BDIA
    from fcfg.sampling import DDIM as DDIM
    from fcfg.sampling import DPMSolver2M as DPMSolver2M
    from fcfg.sampling import FixedPointDDIM as FixedPointDDIM
    from fcfg.sampling import Heun as Heun
    from fcfg.sampling import StepRecord as StepRecord
    from fcfg.support.errors import InputError as InputError
    from fcfg.support.images import to_pictures as to_pictures

_NAMES = {
    "calibration": ("calibrate", "compare_methods"),
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

__all__ = sorted(_HOME)  # pyright: ignore[reportUnsupportedDunderAll]


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
