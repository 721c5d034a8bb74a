r"""How the time of a counterfactual grows with images, groups, steps and pixels.

    python tools/sampling_cost.py [MODEL] [--preset NAME] [--out FILE.csv]

Along each axis the other quantities are fixed. The exponent is the slope of a least-squares line
through the logarithms of all times: 1 is linear, less means that a larger workload uses the device
better, more would be a fault (attention is quadratic in its pixels, and adds a little there).
Images come in batches of one size, so that their peak memory should stay constant.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fcfg.bench import BenchModel, Measurement, Record, Workload
from fcfg.bench.record import Columns, Table, compared, make_table, memory, number
from fcfg.bench.run import compute, describe, describe_run, precision, prepared
from fcfg.bench.timing import isolated, matrix_rate, measure, peak_bytes
from fcfg.causal.graph import Partition
from fcfg.guidance import Guidance
from fcfg.support.errors import InputError
from study import bench_arguments, bench_model, command, show

IMAGES, GROUPS, ROWS, STEPS, PIXELS = AXES = ("images", "groups", "rows", "steps", "pixels")


@dataclass(frozen=True)
class Exponent:
    """A slope and its standard error."""

    value: float
    error: float


def fit_exponent(values: Sequence[float], seconds: Sequence[float]) -> Exponent:
    r"""Fit the p of :math:`\text{seconds} = a\, \text{value}^p` by least squares of logarithms.

    >>> fit_exponent([1, 2, 4], [3, 6, 12])
    Exponent(value=1.0, error=0.0)

    Args:
        values: At least three positive numbers, not all equal.
        seconds: A positive number for each.
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
    residual = y - slope * x
    error = math.sqrt(float(residual @ residual) / (len(x) - 2) / spread)
    return Exponent(round(slope, 12), round(error, 12))


@dataclass(frozen=True, eq=False)
class Point:
    """One workload of a sweep, and its position on one axis or two."""

    workload: Workload
    axes: dict[str, float]
    batch_size: int  #: largest number of network rows per call


def points(model: BenchModel, images: int, steps: int) -> list[Point]:
    """Return three workloads or more along each axis; groups and rows share theirs.

    Args:
        model: Model and device.
        images: Smallest number of images.
        steps: Smallest number of steps.
    """
    found: list[Point] = []

    def add(axes: dict[str, float], workload: Workload) -> None:
        found.append(Point(workload, axes, images * (len(workload.groups) + 1)))

    for factor in (1, 2, 4):
        add({IMAGES: factor * images}, model.workload(factor * images, steps))
    names = model.pipeline.space.names
    for count in range(1, len(names) + 1):
        groups = split(names, count)
        guidance = Guidance.fcfg(**dict.fromkeys(groups, 1.5))
        workload = replace(model.workload(images, steps), guidance=guidance, partition=groups)
        add({GROUPS: count, ROWS: count + 2}, workload)
    for factor in (1, 2, 4):
        add({STEPS: factor * steps}, model.workload(images, factor * steps))
    for size in sizes(model):
        add({PIXELS: size * size}, model.workload(images, steps, size=size))
    return found


def split(names: Sequence[str], count: int) -> Partition:
    """Put the first attributes into groups of one, and the others into the last group."""
    groups = [[name] for name in names[: count - 1]] + [list(names[count - 1 :])]
    return Partition({f"group{number}": group for number, group in enumerate(groups, 1)})


def sizes(model: BenchModel) -> tuple[int, ...]:
    """Return three image sizes that the network accepts, from half its own if possible."""
    size, stride = model.network.size, model.network.stride
    return (size // 2, size, 2 * size) if size // 2 % stride == 0 else (size, 2 * size, 3 * size)


def measure_point(
    point: Point, repetitions: int, patience: float = math.inf
) -> list[tuple[Measurement, tuple[float, ...]]]:
    """Time one point with our eager pipeline; return a row and all times for each of its axes."""
    workload, device = point.workload, point.workload.model.device
    with isolated(device):
        pipeline = prepared(workload, 1, compiled=False)
        times = measure(
            lambda: compute(pipeline, workload, batch_size=point.batch_size),
            device,
            warmup=1,
            repetitions=repetitions,
            patience=patience,
        )
        row = describe(workload, "", precision(workload, compiled=False))
        row = replace(row, part="cost", peak_bytes=peak_bytes(device)).timed(times)
    return [
        (replace(row, name=axis, value=float(value)), times) for axis, value in point.axes.items()
    ]


def exponents(measured: Iterable[tuple[Measurement, tuple[float, ...]]]) -> list[Measurement]:
    """Fit an exponent along each axis with three values or more, to all repetitions."""
    measured, rows = list(measured), list[Measurement]()
    for axis in AXES:
        pairs = [
            (row.value or 0.0, seconds)
            for row, times in measured
            if row.name == axis
            for seconds in times
        ]
        if len({value for value, _ in pairs}) < 3:
            rows.append(Measurement("exponent", axis, note="fewer than three values"))
            continue
        fitted = fit_exponent([value for value, _ in pairs], [seconds for _, seconds in pairs])
        rows.append(
            Measurement("exponent", axis, exponent=fitted.value, exponent_error=fitted.error)
        )
    return rows


def cost_table(record: Record) -> Table:
    """Format the exponents of a record, with the times and peak memory behind them."""

    def along(axis: str) -> list[Measurement]:
        return [row for row in record.of("cost") if row.name == axis]

    columns: Columns = {
        "exponent": lambda row: number(row.exponent),
        "± standard error": lambda row: number(row.exponent_error),
        "from": lambda row: number(min(p.value or 0 for p in along(row.name))),
        "to": lambda row: number(max(p.value or 0 for p in along(row.name))),
        "seconds": lambda row: " ".join(number(p.seconds) for p in along(row.name)),
        "memory": lambda row: " ".join(memory(p) for p in along(row.name)),
    }
    return make_table("Cost: time grows as a power of", record.of("exponent"), columns)


def main(words: list[str]) -> None:
    """Measure, print and write."""
    parser = bench_arguments(__doc__)
    parser.add_argument("--images", type=int, help="smallest number; 128 on a GPU, 1 on a CPU")
    parser.add_argument("--steps", type=int, default=1, help="smallest number")
    args = parser.parse_args(words)
    model, repetitions = bench_model(args), 1 if args.quick else 3
    on_gpu = model.device.type == "cuda"
    images = args.images or (128 if on_gpu else 1)
    rate = matrix_rate(model.device)
    measured = [
        row
        for point in points(model, images, args.steps)
        for row in measure_point(point, repetitions, patience=60 if on_gpu else 10)
    ]
    rows = compared([row for row, _ in measured], "", rate)
    facts = describe_run(model, rate, commit=args.commit)
    facts["command"] = command("sampling_cost", words)
    record = Record(facts, (*rows, *exponents(measured)))
    show([cost_table(record)])
    if args.out is not None:
        record.write(args.out)


if __name__ == "__main__":
    main(sys.argv[1:])
