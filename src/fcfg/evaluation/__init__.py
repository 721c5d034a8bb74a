"""Experiments: which questions are asked of a model, the answers, and what they amount to."""

from fcfg.evaluation.evaluation import Evaluation
from fcfg.evaluation.evaluators import Instruments, find_instruments
from fcfg.evaluation.experiment import Experiment
from fcfg.evaluation.presets import experiments, find_experiment
from fcfg.evaluation.result_files import Result, read_results
from fcfg.evaluation.subset import Subset, choose_subset
from fcfg.evaluation.summary import Cell, Summary, summarise

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
