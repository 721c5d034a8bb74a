"""Training: a configuration and a data set in, a pipeline folder out.

A configuration needs no torch, so that a mistake in it is found at once; training does.
"""

from typing import TYPE_CHECKING

from fcfg.training.config import TrainingConfig, presets, read_config

if TYPE_CHECKING:
    from fcfg.training.run import TrainingStopped, train

__all__ = ["TrainingConfig", "TrainingStopped", "presets", "read_config", "train"]


def __getattr__(name: str) -> object:
    """Import what trains when it is first used (PEP 562)."""
    if name in ("TrainingStopped", "train"):
        from fcfg.training import run

        return getattr(run, name)
    raise AttributeError(f"module 'fcfg.training' has no attribute '{name}'")
