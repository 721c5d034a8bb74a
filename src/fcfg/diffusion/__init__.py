"""The image model: noise schedule, attribute embedder, network, denoiser and its predictions."""

from fcfg.diffusion.denoiser import Corruption, Denoiser
from fcfg.diffusion.embedder import AbstractEmbedder, AttributeEmbedder
from fcfg.diffusion.prediction import (
    AbstractPredictor,
    ConditionalPredictor,
    Evaluate,
    Images,
    Prediction,
    Rows,
    State,
    Step,
)
from fcfg.diffusion.schedule import NoiseSchedule

__all__ = [
    "AbstractEmbedder",
    "AbstractPredictor",
    "AttributeEmbedder",
    "ConditionalPredictor",
    "Corruption",
    "Denoiser",
    "Evaluate",
    "Images",
    "NoiseSchedule",
    "Prediction",
    "Rows",
    "State",
    "Step",
]
