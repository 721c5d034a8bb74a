"""Calibration: weights under which counterfactuals read like real images."""

from fcfg.calibration.run import WEIGHTS, calibrate
from fcfg.calibration.validation import ValidationImages, choose_images

__all__ = ["WEIGHTS", "ValidationImages", "calibrate", "choose_images"]
