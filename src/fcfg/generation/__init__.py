"""Counterfactuals of picture files, in a folder: what ``fcfg generate`` does."""

from fcfg.causal.intervention import flip
from fcfg.generation.comparison import compared, difference_map, difference_scale
from fcfg.generation.parsing import Factual, find_attributes, parse_do
from fcfg.generation.picture_files import Picture, find_pictures, model_pixels, read_files
from fcfg.generation.preparing import prepare
from fcfg.generation.question import Question
from fcfg.generation.record import finished_before
from fcfg.generation.results import Result
from fcfg.generation.run import generate, run

__all__ = [
    "Factual",
    "Picture",
    "Question",
    "Result",
    "compared",
    "difference_map",
    "difference_scale",
    "find_attributes",
    "find_pictures",
    "finished_before",
    "flip",
    "generate",
    "model_pixels",
    "parse_do",
    "prepare",
    "read_files",
    "run",
]
