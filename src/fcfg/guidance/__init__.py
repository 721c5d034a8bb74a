"""Guidance (Sec. 3): CFG, CFG++, APG and contrast, factored by a partition of the attributes."""

from fcfg.guidance.apg import APG
from fcfg.guidance.cfg import CFG
from fcfg.guidance.cfgpp import CFGPlusPlus
from fcfg.guidance.contrast import Contrast
from fcfg.guidance.early_stopping import EarlyStoppingPredictor
from fcfg.guidance.guided import GuidedPredictor
from fcfg.guidance.rule import RULES, AbstractRule, register_rule, weighted_sum
from fcfg.guidance.spec import Guidance, PathKind, WeightTable

__all__ = [
    "APG",
    "CFG",
    "RULES",
    "AbstractRule",
    "CFGPlusPlus",
    "Contrast",
    "EarlyStoppingPredictor",
    "Guidance",
    "GuidedPredictor",
    "PathKind",
    "WeightTable",
    "register_rule",
    "weighted_sum",
]
