"""The kinds of models of this room, which are registered when they are imported."""

from fcfg.rivals.hvae.model import HVAEModel
from fcfg.rivals.sadcg.pipeline import SemanticPipeline

__all__ = ["HVAEModel", "SemanticPipeline"]
