"""How the network computes: threads and precision, chosen by a short measurement at start."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from typing import TypeVar

import numpy as np
import torch

from fcfg.model import AnyModel, model_pixels

BUDGET = 1.0  #: seconds of all measurements together
_GAIN = 1.5  # factor by which bf16 must be faster, since it rounds
_SAMPLING = "dpm-2m uniform 2"

Option = TypeVar("Option")


def choose_execution(model: AnyModel, precision: str = "auto") -> int:
    """Set precision and number of threads to what is fastest here, and return the latter.

    More threads are slower where cores are busy or the network is small. On a GPU nothing is
    measured. On a CPU, 'auto' is bf16 only where the CPU has it and gains much, else float32.
    """
    model.prepare(precision)
    if model.device.type != "cpu":
        return torch.get_num_threads()
    end = time.perf_counter() + BUDGET
    seconds_of_work(model)  # the first call is slower

    def with_threads(count: int) -> float:
        torch.set_num_threads(count)
        return seconds_of_work(model)

    def with_precision(name: str) -> float:
        model.prepare(name)
        return seconds_of_work(model) * (_GAIN if name == "bf16" else 1.0)

    cores = len(os.sched_getaffinity(0))
    counts = sorted({cores, *(2**n for n in range(cores.bit_length()))})  # powers of two, and all
    count = fastest(counts, with_threads, end)
    torch.set_num_threads(count)
    if precision == "auto" and torch.ops.mkldnn._is_mkldnn_bf16_supported():
        model.prepare(fastest(("float32", "bf16"), with_precision, end))
    return count


def fastest(options: Iterable[Option], seconds: Callable[[Option], float], end: float) -> Option:
    """Return the option that takes least time; after ``end`` only the first one is tried."""
    measured: list[tuple[float, Option]] = []
    for option in options:
        if not measured or time.perf_counter() < end:
            measured.append((seconds(option), option))
    return min(measured, key=lambda pair: pair[0])[1]


def seconds_of_work(model: AnyModel) -> float:
    """Return the time of an unguided counterfactual of a grey picture, in two steps."""
    pixels, space = model_pixels(model), model.space
    image = torch.zeros(1, pixels.channels, pixels.size, pixels.size)
    factual = space.decode(np.zeros((1, sum(space.widths))))
    targets = {space.names[0]: factual[space.names[0]]}
    plan = model.plan(targets, model.parse_setting("none"), sampling=_SAMPLING)
    start = time.perf_counter()
    abduction = model.abduct(image, factual, plan=plan)
    model.predict(abduction, model.act(factual, targets), plan)
    return time.perf_counter() - start
