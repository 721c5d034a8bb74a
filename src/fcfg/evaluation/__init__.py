"""Experiments: questions asked of a model, the answers, and their summary."""

import warnings

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

_RENAMED = {"Instruments": Evaluators, "find_instruments": find_evaluators}


def __getattr__(name: str) -> object:
    """Return what a name of version 0.1 stands for, with a warning."""
    if name not in _RENAMED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    new = _RENAMED[name]
    message = f"fcfg.evaluation.{name} is now {new.__name__}; it will be removed in fcfg 0.3"
    warnings.warn(message, DeprecationWarning, stacklevel=2)
    return new
