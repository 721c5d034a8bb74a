"""Contestants for many counterfactuals: the same images, steps and guidance, one after another.

The reference comes first, and every switch that one of them sets is put back after it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fcfg.bench.baselines import Given, Run, batched, separate
from fcfg.bench.bench_model import Question
from fcfg.bench.record import Measurement
from fcfg.bench.schedulers import driven, obstacle
from fcfg.bench.timing import forget_peak, measure, peak_bytes, switches
from fcfg.pipeline.counterfactual import CounterfactualPipeline
from fcfg.pipeline.records import Counterfactual

REFERENCE = "reference: eager, one batched call"
SEPARATE = "eager, M + 1 separate calls"
DIFFUSERS = "diffusers' DDIM schedulers"
EAGER = "ours, eager"
COMPILED = "ours, compiled"
ALONE = "ours, the network alone"
CONTESTANTS = (REFERENCE, SEPARATE, DIFFUSERS, EAGER, COMPILED, ALONE)
NOT_COMPILED = "takes minutes on a CPU: add --compile"


@dataclass(frozen=True, eq=False)
class Contestant:
    """Who answers the question, and how."""

    name: str
    precision: str
    prepare: Callable[[Question], Run]
    absent: str = ""  #: why it does not take part


def contestants(question: Question, *, compiled: bool, rows: int) -> Iterator[Contestant]:
    """All, in order.

    Args:
        question: What they answer.
        compiled: Whether to compile the network, too.
        rows: For which the compiled network is made.
    """
    eager = precision(question, compiled=False)
    schedule = question.subject.pipeline.denoiser.schedule
    why = obstacle(question.steps, schedule)
    yield Contestant(REFERENCE, eager, lambda q: _bound(batched, q))
    yield Contestant(SEPARATE, eager, lambda q: _bound(separate, q))
    yield Contestant(DIFFUSERS, eager, lambda q: _bound(driven, q), why)
    yield Contestant(EAGER, eager, lambda q: _ours(q, prepared(q, compiled=False)))
    yield Contestant(
        COMPILED,
        precision(question, compiled=True) if compiled else "",
        lambda q: _ours(q, prepared(q, compiled=True, rows=rows)),
        "" if compiled else NOT_COMPILED,
    )


def precision(question: Question, *, compiled: bool) -> str:
    """What a GPU computes in, eager or as ours is compiled; a CPU has float32 for both."""
    on_gpu = question.subject.device.type == "cuda"
    return ("bf16" if compiled else "tf32") if on_gpu else "float32"


def prepared(
    question: Question, *, compiled: bool, rows: int = 1, cuda_graphs: bool = True
) -> CounterfactualPipeline:
    """Our pipeline as it is run, eager or compiled.

    Args:
        question: Whose subject it is.
        compiled: In bf16, where there is a GPU.
        rows: For which it is compiled.
        cuda_graphs: Whether a GPU is told of a whole step at once, where images are few.
    """
    wanted = precision(question, compiled=compiled)
    return question.subject.fresh().prepare(
        wanted, compile=compiled, batch_size=rows, cuda_graphs=cuda_graphs
    )


def answer(
    pipeline: CounterfactualPipeline, question: Question, *, at_once: int | None = None
) -> Counterfactual:
    """From the door to the image: abduction, action, prediction.

    Args:
        pipeline: What :func:`prepared` gave.
        question: What it is asked.
        at_once: The most network rows; by default those of all images.
    """
    return pipeline.counterfactual(
        question.images,
        question.attributes,
        question.do,
        guidance=question.guidance,
        partition=question.partition,
        sampling=f"ddim uniform {question.steps}",
        any_size=True,  # costs are measured over several
        batch_size=at_once or question.rows_at_once,
    )


def exact(question: Question) -> Tensor:
    """The images that differences are measured to: float32, eager."""
    with switches(tf32=False):
        return batched(Given.of(question))


def contest(
    question: Question,
    contestant: Contestant,
    truth: Tensor,
    *,
    repetitions: int,
    patience: float = math.inf,
) -> Measurement:
    """Measure one of them; its first run, which is not timed, gives the images.

    Args:
        question: What it answers.
        contestant: Who.
        truth: What :func:`exact` gave.
        repetitions: Of the whole answer.
        patience: Seconds after which none begins.
    """
    row = described(question, contestant.name, contestant.precision)
    if contestant.absent:
        return replace(row, note=contestant.absent)
    device = question.subject.device
    with alone(device):
        run = contestant.prepare(question)
        difference = (run() - truth).abs()
        timing = measure(run, device, repetitions=repetitions, patience=patience)
        row = replace(
            row,
            peak_bytes=peak_bytes(device),
            largest_difference=float(difference.max()),
            mean_difference=float(difference.mean()),
        )
        return row.timed(timing)


def network_alone(
    question: Question, *, compiled: bool, rows: int, repetitions: int
) -> Measurement:
    """Our network without the loop around it: what the loop costs is the difference.

    Args:
        question: Whose network.
        compiled: As it is run, or eager.
        rows: In one call.
        repetitions: Of several calls each.
    """
    device = question.subject.device
    shape = question.subject.network
    row = replace(
        described(question, ALONE, precision(question, compiled=compiled)),
        images=None,
        steps=None,
        evaluations=rows,
        flops=rows * question.subject.flops(question.images.shape[-1]),
    )
    with alone(device), torch.no_grad():
        denoiser = prepared(question, compiled=compiled, rows=rows).denoiser
        x = torch.randn((rows, *question.images.shape[1:]), device=device)
        t = torch.full((rows,), 500, device=device)
        c = torch.randn((rows, shape.condition), device=device)
        timing = measure(
            lambda: denoiser(x, t, c), device, warmup=1, repetitions=repetitions, length=2
        )
        return replace(row, peak_bytes=peak_bytes(device)).timed(timing)


def described(question: Question, name: str, computed_in: str) -> Measurement:
    """What is known of a row before it is measured."""
    flops = question.subject.flops(question.images.shape[-1])
    return Measurement(
        "sampling",
        name,
        precision=computed_in,
        images=len(question.images),
        groups=len(question.groups),
        steps=question.steps,
        size=question.images.shape[-1],
        evaluations=question.evaluations,
        flops=question.evaluations * flops,
    )


@contextmanager
def alone(device: torch.device) -> Generator[None]:
    """Switches and memory for one contestant, as if there were no other."""
    with switches(tf32=True):
        forget_peak(device)
        yield


def _bound(loop: Callable[[Given], Tensor], question: Question) -> Run:
    given = Given.of(question)
    return lambda: loop(given)


def _ours(question: Question, pipeline: CounterfactualPipeline) -> Run:
    return lambda: answer(pipeline, question).trajectory.x
