"""Portraits: a world of drawn faces in which every counterfactual is known."""

from fcfg.datasets.portraits.world import (
    EVALUATION_SEED,
    Portraits,
    counterfactual,
    graph,
    sample,
    sample_in_chunks,
    space,
)

__all__ = [
    "EVALUATION_SEED",
    "Portraits",
    "counterfactual",
    "graph",
    "sample",
    "sample_in_chunks",
    "space",
]
