"""Run a benchmark: many counterfactuals beside baselines, and one counterfactual end to end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import TypeAlias

import torch
from torch import Tensor

from fcfg.bench.baselines import (
    Inputs,
    batched_loop,
    diffusers_loop,
    diffusers_obstacle,
    separate_loop,
)
from fcfg.bench.bench_model import BenchModel, Workload, row_flops
from fcfg.bench.record import Measurement, Record, compared, middle
from fcfg.bench.timing import (
    fast_precision,
    isolated,
    matrix_rate,
    measure,
    peak_bytes,
    synchronise,
)
from fcfg.evaluation.provenance import collect_provenance
from fcfg.pipeline.counterfactual import CounterfactualPipeline
from fcfg.pipeline.records import Counterfactual
from fcfg.sampling import time_grid
from fcfg.support.errors import check_among, check_integer
from fcfg.version import __version__

PARTS = ("sampling", "single")
REFERENCE = "reference: eager, one batched call"
SEPARATE = "eager, M + 1 separate calls"
DIFFUSERS = "diffusers' DDIM schedulers"
EAGER = "ours, eager"
COMPILED = "ours, compiled"
ALONE = "ours, the network alone"

#: Builds the function that computes the images of a workload.
Prepare: TypeAlias = Callable[[], Callable[[], Tensor]]


class Bench:
    """A benchmark of one model, which takes a few minutes by default.

    Args:
        model: Model and device.
        parts: Parts to measure, of PARTS.
        images: Number of images for sampling; by default as many as fill the device.
        steps: Number of steps from image to noise, and back, for sampling.
        rows: Batch size to compile for; the number of images by default.
        quick: Whether to measure less.
        compiled: Whether to measure the compiled pipeline, too.
        commit: Commit of the code; read from git if None.
    """

    def __init__(
        self,
        model: BenchModel,
        parts: tuple[str, ...] = PARTS,
        *,
        images: int | None = None,
        steps: int | None = None,
        rows: int | None = None,
        quick: bool = False,
        compiled: bool = False,
        commit: str | None = None,
    ) -> None:
        on_gpu = model.device.type == "cuda"
        for part in parts:
            check_among("--only", part, PARTS)
        if images is None:
            images = (64 if quick else 512) if on_gpu else 4
        if steps is None:
            steps = 10 if on_gpu else 4
        self.images = check_integer("--images", images, 1, 10**6, "512 fill a large GPU, 4 a CPU")
        self.rows = (
            images if rows is None else check_integer("--rows", rows, 1, 10**6, "leave it out")
        )
        self.steps = len(time_grid(model.pipeline.denoiser.schedule, steps)) - 1
        self.repetitions, self.singles = (1, 1) if quick else (3, 5)
        # A machine that others use changes its pace: implementations take turns on it.
        self.rounds = 1 if on_gpu or compiled else 3
        self.patience = 60.0 if on_gpu else 10.0  # seconds after which no repetition begins
        self.model, self.parts, self.compiled, self.commit = model, parts, compiled, commit

    def run(self, on_progress: Callable[[float], None] = lambda share: None) -> Record:
        """Measure all parts.

        Args:
            on_progress: Callback invoked with the share of the work that is done.
        """
        rate = matrix_rate(self.model.device)
        found: list[Measurement] = []
        for number, part in enumerate(part for part in PARTS if part in self.parts):
            rows: list[Measurement] = []
            rounds = self.rounds if part == "sampling" else 1
            for _ in range(rounds):
                for row in self.sampling() if part == "sampling" else self.single():
                    rows.append(row)
                    on_progress((number + len(rows) / 6 / rounds) / len(self.parts))
            found += compared(middle(rows), REFERENCE, rate)
        facts = describe_run(self.model, rate, compiled=self.compiled, commit=self.commit)
        return Record(facts, tuple(found))

    def sampling(self) -> Iterator[Measurement]:
        """Measure many counterfactuals, the reference first."""
        workload = self.model.workload(self.images, self.steps)
        exact = exact_images(workload)
        eager = precision(workload, compiled=False)

        def baseline(loop: Callable[[Inputs], Tensor]) -> Callable[[], Tensor]:
            return partial(loop, Inputs.of(workload))

        def ours(*, compiled: bool) -> Callable[[], Tensor]:
            pipeline = prepared(workload, self.rows, compiled=compiled)
            return lambda: compute(pipeline, workload).trajectory.x

        add = partial(self.measure_images, workload, exact)
        yield add(REFERENCE, eager, partial(baseline, batched_loop))
        yield add(SEPARATE, eager, partial(baseline, separate_loop))
        if why := diffusers_obstacle(self.steps, self.model.pipeline.denoiser.schedule):
            yield Measurement("sampling", DIFFUSERS, note=why)
        else:
            yield add(DIFFUSERS, eager, partial(baseline, diffusers_loop))
        yield add(EAGER, eager, partial(ours, compiled=False))
        if self.compiled:
            bf16 = precision(workload, compiled=True)
            yield add(COMPILED, bf16, partial(ours, compiled=True))
        else:
            note = "takes minutes on a CPU: add --compile"
            yield Measurement("sampling", COMPILED, note=note)
        yield self.measure_network(workload)

    def single(self) -> Iterator[Measurement]:
        """Measure one counterfactual with default settings."""
        if self.model.device.type == "cuda":
            yield self.measure_single(compiled=False, cuda_graphs=False)
        yield self.measure_single(compiled=False)
        if self.compiled:
            yield self.measure_single(compiled=True)

    def measure_images(
        self, workload: Workload, exact: Tensor, name: str, computed_in: str, prepare: Prepare
    ) -> Measurement:
        """Time a function after a first call, whose images are compared with the exact ones."""
        device = self.model.device
        with isolated(device):
            call = prepare()
            difference = (call() - exact).abs()
            times = measure(call, device, repetitions=self.repetitions, patience=self.patience)
            return replace(
                describe(workload, name, computed_in),
                peak_bytes=peak_bytes(device),
                largest_difference=float(difference.max()),
                mean_difference=float(difference.mean()),
            ).timed(times)

    def measure_network(self, workload: Workload) -> Measurement:
        """Time our network without the sampling loop, whose overhead is the difference."""
        device, compiled = self.model.device, self.compiled
        rows = self.rows if compiled else workload.rows_at_once
        with isolated(device), torch.no_grad():
            denoiser = prepared(workload, rows, compiled=compiled).denoiser
            x = torch.randn((rows, *workload.images.shape[1:]), device=device)
            t = torch.full((rows,), 500, device=device)
            c = torch.randn((rows, self.model.network.condition), device=device)
            times = measure(
                lambda: denoiser(x, t, c),
                device,
                warmup=1,
                repetitions=self.repetitions,
                length=2,
            )
            return replace(
                describe(workload, ALONE, precision(workload, compiled=compiled)),
                images=None,
                steps=None,
                evaluations=rows,
                flops=rows * workload.row_flops,
                peak_bytes=peak_bytes(device),
            ).timed(times)

    def measure_single(self, *, compiled: bool, cuda_graphs: bool = True) -> Measurement:
        """Time the first call with default settings, and later ones."""
        workload, device = self.model.workload(1, 1), self.model.device
        rows = workload.rows_at_once
        with isolated(device):
            pipeline = prepared(workload, rows, compiled=compiled, cuda_graphs=cuda_graphs)
            plan = pipeline.plan(workload.do)
            name = f"{plan.setting}, {plan.sampling}, {'compiled' if compiled else 'eager'}"
            name += "" if cuda_graphs else ", kernel by kernel"

            def call() -> Counterfactual:
                return pipeline.counterfactual(workload.images, workload.attributes, workload.do)

            start = time.perf_counter()
            pair = call()
            synchronise(device)
            cold = time.perf_counter() - start
            times = measure(call, device, repetitions=self.singles, patience=self.patience)
            return replace(
                describe(workload, name, precision(workload, compiled=compiled)),
                part="single",
                steps=len(pair.abduction.times) - 1,
                cold_seconds=cold,
                evaluations=pair.evaluations,
                flops=pair.evaluations * workload.row_flops,
                peak_bytes=peak_bytes(device),
            ).timed(times)


def precision(workload: Workload, *, compiled: bool) -> str:
    """Return the precision to compute in: TF32 or, compiled, bf16 on a GPU; float32 on a CPU."""
    on_gpu = workload.model.device.type == "cuda"
    return ("bf16" if compiled else "tf32") if on_gpu else "float32"


def prepared(
    workload: Workload, rows: int, *, compiled: bool, cuda_graphs: bool = True
) -> CounterfactualPipeline:
    """Return a copy of the pipeline, prepared for batches of some rows."""
    return workload.model.fresh().prepare(
        precision(workload, compiled=compiled),
        compile=compiled,
        batch_size=rows,
        cuda_graphs=cuda_graphs,
    )


def compute(
    pipeline: CounterfactualPipeline, workload: Workload, *, batch_size: int | None = None
) -> Counterfactual:
    """Compute a workload with our pipeline, from arguments to images."""
    return pipeline.counterfactual(
        workload.images,
        workload.attributes,
        workload.do,
        guidance=workload.guidance,
        partition=workload.partition,
        sampling=f"ddim uniform {workload.steps}",
        any_size=True,  # costs are measured at several sizes
        batch_size=batch_size or workload.rows_at_once,
    )


def exact_images(workload: Workload) -> Tensor:
    """Compute the images that differences are measured from: float32, eager."""
    with isolated(workload.model.device, tf32=False):
        return batched_loop(Inputs.of(workload))


def describe(workload: Workload, name: str, computed_in: str) -> Measurement:
    """Return a row without times."""
    return Measurement(
        "sampling",
        name,
        precision=computed_in,
        images=len(workload.images),
        groups=len(workload.groups),
        steps=workload.steps,
        size=workload.images.shape[-1],
        evaluations=workload.evaluations,
        flops=workload.evaluations * workload.row_flops,
    )


def describe_run(
    model: BenchModel, rate: float, *, compiled: bool = False, commit: str | None = None
) -> dict[str, str]:
    """Describe the model, the machine and the code.

    Args:
        model: Model and device.
        rate: Operations per second of a large matrix product.
        compiled: Whether the compiled pipeline is measured.
        commit: Commit of the code; read from git if None.
    """
    device, network = model.device, model.network
    computed_in = str(fast_precision(device)).removeprefix("torch.")
    known = collect_provenance(device.type, computed_in, compiled=compiled, commit=commit)
    return {
        "model": model.name,
        "parameters": str(sum(p.numel() for p in model.pipeline.denoiser.parameters())),
        "row_gflop": f"{row_flops(network, network.size) / 1e9:.4g}",
        "device": known["environment"]["device"],
        "threads": str(torch.get_num_threads()) if device.type == "cpu" else "",
        "torch": known["environment"]["torch"],
        "chip_precision": known["environment"]["precision"],
        "chip_tflops": f"{rate / 1e12:.4g}",
        "fcfg": __version__,
        "commit": known["commit"] or "",
        "command": known["command"],
    }
