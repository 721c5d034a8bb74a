"""Counterfactuals of picture files, in a folder: the library behind ``fcfg generate``."""

from fcfg.generation.comparison import compare
from fcfg.generation.division import Division, divide
from fcfg.generation.many import answer_all, workers_of
from fcfg.generation.parsing import Factual, find_attributes, parse_do
from fcfg.generation.picture_files import (
    Picture,
    SamplePictures,
    find_pictures,
    read_files,
    sample_pictures,
)
from fcfg.generation.record import finished_before
from fcfg.generation.request import PreparedRequest, Request
from fcfg.generation.results import Result
from fcfg.generation.run import generate, prepare, run

__all__ = [
    "Division",
    "Factual",
    "Picture",
    "PreparedRequest",
    "Request",
    "Result",
    "SamplePictures",
    "answer_all",
    "compare",
    "divide",
    "find_attributes",
    "find_pictures",
    "finished_before",
    "generate",
    "parse_do",
    "prepare",
    "read_files",
    "run",
    "sample_pictures",
    "workers_of",
]
