"""What a counterfactual costs: time against images, groups, steps and pixels.

Along each axis the rest is held; the exponent is the slope of a line through the logarithms of
all times. 1 is linear; less is what a busier device gains; more would be a fault.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fcfg.bench.bench_model import Question, Subject
from fcfg.bench.record import Measurement
from fcfg.bench.sampling import alone, answer, described, precision, prepared
from fcfg.bench.timing import Timing, measure, peak_bytes
from fcfg.support.errors import InputError

IMAGES, GROUPS, ROWS, STEPS, PIXELS = AXES = ("images", "groups", "rows", "steps", "pixels")


@dataclass(frozen=True)
class Exponent:
    """A slope, and its standard error."""

    value: float
    error: float


def fit_exponent(values: Sequence[float], seconds: Sequence[float]) -> Exponent:
    r"""The p of :math:`\text{seconds} = a\, \text{value}^p`, by least squares of logarithms.

    >>> fit_exponent([1, 2, 4], [3, 6, 12])
    Exponent(value=1.0, error=0.0)

    Args:
        values: Positive, at least three, not all the same.
        seconds: Positive, one for each.
    """
    if len(values) != len(seconds) or len(values) < 3 or len(set(values)) < 2:
        raise InputError(
            "exponent",
            expected="three pairs or more, with different values",
            got=f"{len(values)} values and {len(seconds)} times",
            do="measure more",
        )
    x, y = np.log(np.asarray(values, float)), np.log(np.asarray(seconds, float))
    x, y = x - x.mean(), y - y.mean()
    spread = float(x @ x)
    slope = float(x @ y) / spread
    left = y - slope * x
    return Exponent(
        round(slope, 12), round(math.sqrt(float(left @ left) / (len(x) - 2) / spread), 12)
    )


@dataclass(frozen=True, eq=False)
class Point:
    """One question of a sweep, and where it lies on which axes."""

    question: Question
    axes: dict[str, float]
    at_once: int  #: the most network rows


def points(subject: Subject, images: int, steps: int) -> list[Point]:
    """The sweep: four axes of three values, one of the groups for groups and rows alike.

    Images come in chunks of one size, so that their memory can be seen to stay.

    Args:
        subject: The model.
        images: The fewest.
        steps: The fewest.
    """
    found: list[Point] = []

    def add(axes: dict[str, float], **asked: int) -> None:
        question = subject.question(**({"images": images, "steps": steps} | asked))
        found.append(Point(question, axes, images * (len(question.groups) + 1)))

    for factor in (1, 2, 4):
        add({IMAGES: factor * images}, images=factor * images)
    for count in range(1, len(subject.pipeline.space) + 1):
        add({GROUPS: count, ROWS: count + 2}, groups=count)
    for factor in (1, 2, 4):
        add({STEPS: factor * steps}, steps=factor * steps)
    for size in _sizes(subject):
        add({PIXELS: size * size}, size=size)
    return found


def cost(
    point: Point, *, repetitions: int, patience: float = math.inf
) -> list[tuple[Measurement, Timing]]:
    """Time one point with our eager pipeline; a row for each of its axes, and all its times.

    Args:
        point: Of a sweep.
        repetitions: After one that is not counted.
        patience: Seconds after which none begins.
    """
    question, device = point.question, point.question.subject.device
    with alone(device):
        pipeline = prepared(question, compiled=False)
        timing = measure(
            lambda: answer(pipeline, question, at_once=point.at_once),
            device,
            warmup=1,
            repetitions=repetitions,
            patience=patience,
        )
        peak = peak_bytes(device)
    row = replace(
        described(question, "", precision(question, compiled=False)), part="cost", peak_bytes=peak
    ).timed(timing)
    return [
        (replace(row, name=axis, value=float(value)), timing) for axis, value in point.axes.items()
    ]


def exponents(measured: Iterable[tuple[Measurement, Timing]]) -> list[Measurement]:
    """An exponent for each axis that has three values; every repetition is a point.

    Args:
        measured: What :func:`cost` gave, of all points.
    """
    measured, rows = list(measured), list[Measurement]()
    for axis in AXES:
        pairs = [
            (row.value or 0.0, seconds)
            for row, timing in measured
            if row.name == axis
            for seconds in timing.seconds
        ]
        if len({value for value, _ in pairs}) < 3:
            rows.append(Measurement("exponent", axis, note="fewer than three values"))
            continue
        fitted = fit_exponent([value for value, _ in pairs], [seconds for _, seconds in pairs])
        rows.append(
            Measurement("exponent", axis, exponent=fitted.value, exponent_error=fitted.error)
        )
    return rows


def _sizes(subject: Subject) -> tuple[int, ...]:
    """Three that the network takes, half its own among them where that is one."""
    size, stride = subject.network.size, subject.network.stride
    return (size // 2, size, 2 * size) if size // 2 % stride == 0 else (size, 2 * size, 3 * size)
