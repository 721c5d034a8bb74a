"""Guidance (Sec. 3): CFG, CFG++, APG and contrast, factored by a partition of the attributes."""

from fcfg.guidance.apg import APG
from fcfg.guidance.cfg import CFG
from fcfg.guidance.cfgpp import CFGPlusPlus
from fcfg.guidance.contrast import Contrast
from fcfg.guidance.early_stopping import EarlyStoppingPredictor
from fcfg.guidance.guided import GuidedPredictor
from fcfg.guidance.path import PATH_OPTIONS, Drawing, PathKind
from fcfg.guidance.rule import RULES, AbstractRule, WeightTable, register_rule, weighted_sum
from fcfg.guidance.spec import Guidance, GuidanceLike

__all__ = [
    "APG",
    "CFG",
    "PATH_OPTIONS",
    "RULES",
    "AbstractRule",
    "CFGPlusPlus",
    "Contrast",
    "Drawing",
    "EarlyStoppingPredictor",
    "Guidance",
    "GuidanceLike",
    "GuidedPredictor",
    "PathKind",
    "WeightTable",
    "register_rule",
    "weighted_sum",
]
