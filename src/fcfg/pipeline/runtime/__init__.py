"""How a network computes: precision, memory layout, compilation, rows at once."""

from fcfg.pipeline.runtime.compiled_batches import CompiledRows, covering
from fcfg.pipeline.runtime.devices import own_gpu
from fcfg.pipeline.runtime.graph_cache import StepRecorder
from fcfg.pipeline.runtime.memory import fitting_rows
from fcfg.pipeline.runtime.options import PRECISIONS, Execution
from fcfg.pipeline.runtime.prepare import prepare_denoiser

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
