"""A benchmark: many counterfactuals beside baselines, and one counterfactual end to end."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import Tensor

from fcfg.bench.baselines import diffusers_loop, diffusers_obstacle, plain_loop
from fcfg.bench.workload import AFFECTED, INVARIANT, Workload
from fcfg.guidance import Guidance
from fcfg.pipeline.counterfactual import CounterfactualPipeline
from fcfg.sampling import time_grid
from fcfg.support.errors import check_integer
from fcfg.support.progress import OnProgress, Progress

PLAIN, DIFFUSERS, OURS = "plain loop", "diffusers' DDIM schedulers", "ours"
COMPILED, NETWORK = "ours, compiled", "the network alone"
_COMPILING = 60.0  # seconds, roughly
_DEFAULT = 40  # rows of one counterfactual with the default of its model, roughly
_ROUNDS = 5  # at most

Call: TypeAlias = Callable[[], Any]


@dataclass(frozen=True)
class Measurement:
    """One measured implementation. Fields that do not apply are None or empty."""

    name: str
    note: str = ""  #: reason for missing numbers
    precision: str = ""
    images: int | None = None  #: per call
    rows: int | None = None  #: of the network, per call
    cold: float | None = None  #: seconds of the first call, including compilation
    times: tuple[float, ...] = ()  #: seconds of later calls

    @property
    def seconds(self) -> float | None:
        """Median of later calls."""
        return statistics.median(self.times) if self.times else None

    def timed(self, times: Sequence[float]) -> Measurement:
        """Add seconds, the first of which is that of a cold call."""
        cold, *warm = times
        return replace(self, cold=self.cold or cold, times=tuple(warm))


@dataclass(frozen=True)
class Record:
    """The result of a benchmark."""

    heading: str  #: model and machine in one line
    rows: tuple[Measurement, ...] = field(repr=False)  #: the first one is the reference
    row_seconds: float  #: of a network row at the rate of a large matrix product

    def table(self) -> list[list[str]]:
        """Return the title of each column, then the cells of each row, as text."""
        texts = ["", "precision", "images", "rows", "first call", "seconds"]
        head = [*texts, "images/s", "rows/s", "speed-up", "of chip"]
        return [head, *map(self._cells, self.rows)]

    def _cells(self, row: Measurement) -> list[str]:
        reference, seconds = self.rows[0], row.seconds
        images, rows = (count and seconds and count / seconds for count in (row.images, row.rows))
        ratio = seconds and reference.seconds and reference.seconds / seconds
        ratio = ratio if row.images == reference.images else None
        numbers = [number(row.images), number(row.rows), number(row.cold, unit=" s")]
        numbers += [number(seconds), number(images), number(rows), number(ratio, ".2f", "×")]
        name = f"{row.name} ({row.note})" if row.note else row.name
        return [name, row.precision, *numbers, number(rows and rows * self.row_seconds, ".1%")]


def number(value: float | None, spec: str = "", unit: str = "") -> str:
    """Format a number; with three digits and no exponent by default.

    >>> number(14505.3), number(0.01234), number(None), number(2.5, ".2f", "×")
    ('14,505', '0.0123', '–', '2.50×')
    """
    if value is None:
        return "–"
    return f"{value:{spec or (',.0f' if abs(value) >= 1000 else '.3g')}}{unit}"


@dataclass(frozen=True, eq=False)
class Bench:
    """A benchmark of one model, planned to take a given time."""

    name: str  #: of the model
    workload: Workload
    compiled: bool
    rounds: int  #: in each, every implementation has a turn; one more warms up
    seconds: float  #: estimate for the whole benchmark
    allowed: float  #: seconds after which no further round begins

    def run(self, on_progress: OnProgress = lambda _: None) -> Record:
        """Measure."""
        work, pipeline = self.workload, self.workload.pipeline
        base = Measurement("", images=len(work.images), rows=work.evaluations)
        calls: dict[Measurement, Call] = {replace(base, name=PLAIN): partial(plain_loop, work)}
        if not (obstacle := diffusers_obstacle(work)):
            calls[replace(base, name=DIFFUSERS)] = partial(diffusers_loop, work)
        calls[replace(base, name=OURS)] = partial(compute, work)
        calls[Measurement(NETWORK, rows=work.rows_at_once)] = network_call(work)
        calls |= dict([self._default()])
        count = len(calls) + self.compiled
        progress = Progress((1 + self.rounds) * count, on_progress)
        rows = self._take_turns(calls, "tf32" if self._on_gpu else "float32", progress)
        if self.compiled:
            precision = "bf16" if self._on_gpu else "float32"
            pipeline.prepare(precision, compile=True, batch_size=len(work.images))
            call = {replace(base, name=COMPILED): partial(compute, work)}
            rows[-2:-2] = self._take_turns(call, precision, progress)
            pipeline.prepare()
        chip, flops = matrix_rate(pipeline.denoiser.device), work.row_flops
        if obstacle:
            rows.insert(1, Measurement(DIFFUSERS, obstacle))
        return Record(self._heading(chip, flops), tuple(rows), flops / chip)

    @property
    def _on_gpu(self) -> bool:
        return self.workload.pipeline.denoiser.device.type == "cuda"

    def _default(self) -> tuple[Measurement, Call]:
        """Return one counterfactual with the default of the model, end to end."""
        pipeline, one = self.workload.pipeline, Workload.of(self.workload.pipeline, 1, 1)
        call = partial(pipeline.counterfactual, one.images, one.attributes, one.do, progress=False)
        cold, pair = timed(call, pipeline.denoiser.device)
        plan = pipeline.plan(one.do)
        name = f"one image by default: {plan.setting}, {plan.sampling}"
        return Measurement(name, images=1, rows=pair.evaluations, cold=cold), call

    def _take_turns(
        self, calls: Mapping[Measurement, Call], precision: str, progress: Progress
    ) -> list[Measurement]:
        """Time all in turns, because a machine that others use changes its pace."""
        device = self.workload.pipeline.denoiser.device
        times: dict[Measurement, list[float]] = {row: [] for row in calls}
        start = time.perf_counter()
        for number in range(1 + self.rounds):
            if number > 1 and time.perf_counter() - start > self.allowed:
                break  # the machine became slower
            for row, call in calls.items():
                times[row].append(timed(call, device)[0])
                progress.advance(1)
        return [replace(row, precision=precision).timed(found) for row, found in times.items()]

    def _heading(self, chip: float, flops: int) -> str:
        cpu = f"CPU with {torch.get_num_threads()} threads"
        machine = torch.cuda.get_device_name() if self._on_gpu else cpu
        return (
            f"{self.name}: {self.workload.pipeline.parameters / 1e6:.1f} M parameters, "
            f"{flops / 1e9:.4g} GFLOP a network row; {machine}, torch {torch.__version__}; "
            f"a large matrix product reaches {chip / 1e12:.4g} TFLOP/s"
        )


def plan(
    name: str,
    pipeline: CounterfactualPipeline,
    *,
    seconds: int | None = None,
    images: int | None = None,
    steps: int | None = None,
    compile: bool | None = None,
) -> Bench:
    """Time the network, and choose the number of images and of rounds by its rate.

    Args:
        name: Name of the model.
        pipeline: The model, on the device to measure; it is prepared.
        seconds: Seconds that the benchmark may take: by default two minutes on a GPU and three
            on a CPU.
        images: Number of images; by default as many as there is time for, up to 512 on a GPU
            and 4 on a CPU.
        steps: Number of steps from image to noise, and back; by default 10 or, on a CPU, 4.
        compile: Whether to measure the compiled pipeline, too; by default on a GPU.
    """
    device = pipeline.denoiser.device
    compiled = device.type == "cuda" if compile is None else compile
    few, most, usual, allowed = (64, 512, 10, 120) if device.type == "cuda" else (1, 4, 4, 180)
    most = most if images is None else images
    seconds = allowed if seconds is None else seconds
    check_integer("--images", most, 1, 10**6, "512 fill a large GPU, 4 a CPU")
    check_integer("--seconds", seconds, 1, 10**6, "leave it out")
    steps = len(time_grid(pipeline.denoiser.schedule, usual if steps is None else steps)) - 1
    probe = Workload.of(pipeline.prepare(), min(most, few), 1)
    call = network_call(probe)
    row = min(timed(call, device)[0] for _ in range(3)) / probe.rows_at_once

    def cost(work: Workload, rounds: int) -> float:
        rows = (4 if compiled else 3) * work.evaluations + work.rows_at_once + _DEFAULT
        return (1 + rounds) * rows * row + compiled * _COMPILING

    work = Workload.of(pipeline, most, steps)
    while images is None and len(work.images) > 1 and cost(work, 2) > seconds:
        work = Workload.of(pipeline, len(work.images) // 2, steps)
    rounds = max(n for n in range(1, _ROUNDS + 1) if n == 1 or cost(work, n) < seconds)
    return Bench(name, work, compiled, rounds, cost(work, rounds), seconds)


def compute(work: Workload) -> Tensor:
    """Compute a workload with our pipeline, from arguments to images."""
    return work.pipeline.counterfactual(
        work.images,
        work.attributes,
        work.do,
        guidance=Guidance.fcfg(affected=AFFECTED, invariant=INVARIANT),
        sampling=f"ddim uniform {work.steps}",
        batch_size=work.rows_at_once,
        progress=False,
    ).trajectory.x


def network_call(work: Workload) -> Call:
    """Return a call of the network with the rows of one guided step."""
    denoiser, rows = work.pipeline.denoiser, work.rows_at_once
    copies = rows // len(work.images)
    x = torch.cat([denoiser.encoded(work.images)] * copies)
    t = torch.full((rows,), denoiser.schedule.steps // 2, device=denoiser.device)
    c = denoiser.condition(work.attributes).repeat(copies, 1)
    return torch.no_grad()(lambda: denoiser(x, t, c))


def timed(call: Call, device: torch.device) -> tuple[float, Any]:
    """Return the seconds of a call, until a GPU has finished it, and its result."""
    finish = partial(torch.cuda.synchronize, device) if device.type == "cuda" else lambda: None
    finish()
    start = time.perf_counter()
    result = call()
    finish()
    return time.perf_counter() - start, result


def matrix_rate(device: torch.device) -> float:
    """Return the operations per second of a large product, in bf16 on a GPU, float32 on a CPU."""
    on_gpu = device.type == "cuda"
    side, dtype = (8192, torch.bfloat16) if on_gpu else (1024, torch.float32)
    a, b = (torch.randn((side, side), device=device, dtype=dtype) for _ in range(2))
    calls = 20 if on_gpu else 2

    def multiply() -> None:
        for _ in range(calls):
            torch.matmul(a, b)

    _, *seconds = (timed(multiply, device)[0] for _ in range(6))
    return 2 * side**3 * calls / statistics.median(seconds)
