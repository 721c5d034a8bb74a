"""Trust: signals of every counterfactual, and thresholds that say which of them to doubt."""

from fcfg.model.thresholds import LEVELS, Thresholds
from fcfg.trust.signals import (
    SMALL_ERROR,
    Signals,
    denoising_loss,
    measure_trust,
    not_reached,
    reasons,
    unchecked,
)
from fcfg.trust.validation import trust_thresholds

__all__ = [
    "LEVELS",
    "SMALL_ERROR",
    "Signals",
    "Thresholds",
    "denoising_loss",
    "measure_trust",
    "not_reached",
    "reasons",
    "trust_thresholds",
    "unchecked",
]
