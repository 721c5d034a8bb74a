"""One counterfactual from end to end, as somebody waits for it."""

from __future__ import annotations

import math
import time
from dataclasses import replace

from fcfg.bench.bench_model import Subject
from fcfg.bench.record import Measurement
from fcfg.bench.sampling import alone, described, precision, prepared
from fcfg.bench.timing import measure, peak_bytes, wait
from fcfg.sampling import PRESETS


def single(
    subject: Subject,
    *,
    compiled: bool,
    repetitions: int,
    patience: float = math.inf,
    cuda_graphs: bool = True,
) -> Measurement:
    """Time the pipeline with its defaults: the first answer, and those after it.

    Args:
        subject: The model.
        compiled: As it is run, or eager.
        repetitions: Answers after the first.
        patience: Seconds after which none begins.
        cuda_graphs: Whether a GPU is told of a whole step at once.
    """
    question, device = subject.question(1, 1), subject.device
    rows = question.rows_at_once
    name = f"{PRESETS['default']}, {'compiled' if compiled else 'eager'}"
    name += "" if cuda_graphs else ", kernel by kernel"
    with alone(device):
        pipeline = prepared(question, compiled=compiled, rows=rows, cuda_graphs=cuda_graphs)
        start = time.perf_counter()
        pair = pipeline.counterfactual(question.images, question.attributes, question.do)
        wait(device)
        cold = time.perf_counter() - start
        timing = measure(
            lambda: pipeline.counterfactual(question.images, question.attributes, question.do),
            device,
            repetitions=repetitions,
            patience=patience,
        )
    row = described(question, name, precision(question, compiled=compiled))
    return replace(
        row,
        part="single",
        steps=len(pair.abduction.times) - 1,
        cold_seconds=cold,
        evaluations=pair.evaluations,
        flops=pair.evaluations * subject.flops(),
        peak_bytes=peak_bytes(device),
    ).timed(timing)
