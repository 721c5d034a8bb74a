"""Calibration: weights under which counterfactuals read like real images."""

from fcfg.calibration.methods import METHODS
from fcfg.calibration.run import WEIGHTS, calibrate
from fcfg.calibration.search import Tried, compare_methods
from fcfg.calibration.validation import ValidationImages, choose_images

__all__ = [
    "METHODS",
    "WEIGHTS",
    "Tried",
    "ValidationImages",
    "calibrate",
    "choose_images",
    "compare_methods",
]
