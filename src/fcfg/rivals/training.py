"""What ``fcfg train`` can train of this room: kinds of models, registered by their import."""

from fcfg.rivals.hvae_training import FineTuning, HVAETraining
from fcfg.rivals.sadcg_training import SemanticTraining

__all__ = ["FineTuning", "HVAETraining", "SemanticTraining"]
