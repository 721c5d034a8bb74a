"""The causal question (Sec. 2): attributes, their graph, interventions and their causal model.

Attributes and graph need no torch, so the causal model is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fcfg.causal.attributes import AttributeSpace, Binary, Categorical, Continuous
from fcfg.causal.graph import CausalGraph, Partition

if TYPE_CHECKING:
    from fcfg.causal.scm import StructuralCausalModel

__all__ = [
    "AttributeSpace",
    "Binary",
    "Categorical",
    "CausalGraph",
    "Continuous",
    "Partition",
    "StructuralCausalModel",
]


def __getattr__(name: str) -> object:
    """Import the causal model (PEP 562)."""
    if name == "StructuralCausalModel":
        from fcfg.causal.scm import StructuralCausalModel

        return StructuralCausalModel
    raise AttributeError(f"module 'fcfg.causal' has no attribute '{name}'")
