"""How a network computes: precision, memory layout, compilation, rows at once."""

from fcfg.execution.gpus import own_gpu
from fcfg.execution.memory import fitting_rows
from fcfg.execution.options import PRECISIONS, Execution
from fcfg.execution.preparing import prepare_denoiser
from fcfg.execution.recording import StepRecorder
from fcfg.execution.rows import CompiledRows, covering

__all__ = [
    "PRECISIONS",
    "CompiledRows",
    "Execution",
    "StepRecorder",
    "covering",
    "fitting_rows",
    "own_gpu",
    "prepare_denoiser",
]
