"""Experiments: questions asked of a model, the answers, and their summary."""

from fcfg.evaluation.evaluation import Evaluation
from fcfg.evaluation.experiment import Experiment
from fcfg.evaluation.measurements import Evaluators, find_evaluators
from fcfg.evaluation.presets import experiments, find_experiment
from fcfg.evaluation.result_files import Result, read_results
from fcfg.evaluation.subset import Subset, choose_subset
from fcfg.evaluation.summary import Cell, Summary, summarise

__all__ = [
    "Cell",
    "Evaluation",
    "Evaluators",
    "Experiment",
    "Result",
    "Subset",
    "Summary",
    "choose_subset",
    "experiments",
    "find_evaluators",
    "find_experiment",
    "read_results",
    "summarise",
]
