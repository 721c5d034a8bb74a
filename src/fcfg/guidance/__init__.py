"""Guidance: three rules (CFG, CFG++, APG), factored by a partition, and their text form."""

from fcfg.guidance.apg import APG
from fcfg.guidance.cfg import CFG
from fcfg.guidance.cfgpp import CFGPlusPlus
from fcfg.guidance.early_stopping import SettlingPredictor
from fcfg.guidance.guided import GuidedPredictor
from fcfg.guidance.rule import AbstractRule
from fcfg.guidance.rules import register_rule
from fcfg.guidance.spec import Guidance, WeightTable

__all__ = [
    "APG",
    "CFG",
    "AbstractRule",
    "CFGPlusPlus",
    "Guidance",
    "GuidedPredictor",
    "SettlingPredictor",
    "WeightTable",
    "register_rule",
]
