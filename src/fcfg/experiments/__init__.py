"""Experiments: which questions are asked of a model, the answers, and what they amount to."""

from fcfg.experiments.config import Experiment
from fcfg.experiments.evaluation import Evaluation
from fcfg.experiments.instruments import Instruments, find_instruments
from fcfg.experiments.presets import experiments, find_experiment
from fcfg.experiments.record import Result, read_results
from fcfg.experiments.subset import Subset, choose_subset
from fcfg.experiments.summary import Cell, Summary, summarise

__all__ = [
    "Cell",
    "Evaluation",
    "Experiment",
    "Instruments",
    "Result",
    "Subset",
    "Summary",
    "choose_subset",
    "experiments",
    "find_experiment",
    "find_instruments",
    "read_results",
    "summarise",
]
