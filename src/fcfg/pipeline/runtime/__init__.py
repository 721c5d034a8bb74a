"""How a network computes: precision, compilation, CUDA graphs, devices."""

from fcfg.pipeline.runtime.compiled_batches import CompiledRows, covering
from fcfg.pipeline.runtime.cuda_graphs import StepRecorder
from fcfg.pipeline.runtime.devices import fitting_rows, own_gpu
from fcfg.pipeline.runtime.prepare import PRECISIONS, Execution, prepare_denoiser

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
