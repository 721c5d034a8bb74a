"""Metrics: tensors and columns in, numbers with their intervals out; they know no model."""

from fcfg.metrics.effectiveness import (
    MIN_IMAGES,
    auroc,
    correlation,
    macro_auroc,
    mean_absolute_error,
)
from fcfg.metrics.frechet import Inception, frechet_distance
from fcfg.metrics.intervals import Bootstrap, Estimate, mean, ratio
from fcfg.metrics.lpips import LPIPS
from fcfg.metrics.pixels import PIXEL_RANGE, image_mae
from fcfg.metrics.shift import amplification, attenuation, directions, level_scores, signed_shift
from fcfg.metrics.truth import ImageErrors, image_errors
from fcfg.metrics.weights import Missing, find_inception, find_lpips

__all__ = [
    "LPIPS",
    "MIN_IMAGES",
    "PIXEL_RANGE",
    "Bootstrap",
    "Estimate",
    "ImageErrors",
    "Inception",
    "Missing",
    "amplification",
    "attenuation",
    "auroc",
    "correlation",
    "directions",
    "find_inception",
    "find_lpips",
    "frechet_distance",
    "image_errors",
    "image_mae",
    "level_scores",
    "macro_auroc",
    "mean",
    "mean_absolute_error",
    "ratio",
    "signed_shift",
]
