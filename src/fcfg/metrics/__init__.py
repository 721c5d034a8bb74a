"""Metrics: tensors and columns in, numbers with their intervals out; they know no model."""

from fcfg.metrics.effectiveness import MIN_IMAGES, auroc, macro_auroc, mean_absolute_error
from fcfg.metrics.intervals import Bootstrap, Estimate, mean, ratio
from fcfg.metrics.pixels import PIXEL_RANGE, image_mae
from fcfg.metrics.shift import amplification, attenuation, directions, level_scores, signed_shift
from fcfg.metrics.truth import ImageErrors, image_errors

__all__ = [
    "MIN_IMAGES",
    "PIXEL_RANGE",
    "Bootstrap",
    "Estimate",
    "ImageErrors",
    "amplification",
    "attenuation",
    "auroc",
    "directions",
    "image_errors",
    "image_mae",
    "level_scores",
    "macro_auroc",
    "mean",
    "mean_absolute_error",
    "ratio",
    "signed_shift",
]
