"""Portraits: a world of drawn faces in which every counterfactual is known.

The world is drawn with torch, and imported when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fcfg.datasets.portraits.world import (
        Portraits,
        counterfactual,
        graph,
        sample,
        sample_in_chunks,
        space,
    )

#: Drawings with this seed or a larger one are reserved for evaluation.
EVALUATION_SEED = 1_000_000

__all__ = [
    "EVALUATION_SEED",
    "Portraits",
    "counterfactual",
    "graph",
    "sample",
    "sample_in_chunks",
    "space",
]


def __getattr__(name: str) -> object:
    """Import the world (PEP 562)."""
    if name in __all__:
        return getattr(import_module("fcfg.datasets.portraits.world"), name)
    raise AttributeError(f"module 'fcfg.datasets.portraits' has no attribute '{name}'")
