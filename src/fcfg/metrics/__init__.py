"""Metrics of images and attributes, with bootstrap intervals; none of them needs a model."""

from fcfg.metrics.effectiveness import (
    MIN_IMAGES,
    auroc,
    auroc_of_rows,
    correlation,
    mean_absolute_error,
)
from fcfg.metrics.frechet import Inception, find_inception, frechet_distance
from fcfg.metrics.intervals import Bootstrap, Estimate, holm, mean, ratio
from fcfg.metrics.kernel import kernel_distance
from fcfg.metrics.lpips import LPIPS, find_lpips
from fcfg.metrics.minimality import fifths, minimality
from fcfg.metrics.pixels import PIXEL_RANGE, ImageErrors, image_errors, image_mae
from fcfg.metrics.shift import amplification, attenuation, directions, level_scores, signed_shift
from fcfg.metrics.strokes import stroke_intensity, stroke_thickness
from fcfg.metrics.weights import Missing

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
    "auroc_of_rows",
    "correlation",
    "directions",
    "fifths",
    "find_inception",
    "find_lpips",
    "frechet_distance",
    "holm",
    "image_errors",
    "image_mae",
    "kernel_distance",
    "level_scores",
    "mean",
    "mean_absolute_error",
    "minimality",
    "ratio",
    "signed_shift",
    "stroke_intensity",
    "stroke_thickness",
]
