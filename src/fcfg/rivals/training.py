"""What ``fcfg train`` can train of this room: kinds of models, and presets."""

from fcfg.rivals.hvae_training import FineTuning, HVAETraining
from fcfg.rivals.sadcg_training import SemanticTraining
from fcfg.training.kinds import register_presets

__all__ = ["FineTuning", "HVAETraining", "SemanticTraining"]

register_presets("fcfg.rivals")
