"""``fcfg bench``: how fast this machine samples, beside baselines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from fcfg.cli.computing import Computing, as_pipeline, computing_by, load_pipeline
from fcfg.cli.options import Given, options_of, with_options
from fcfg.support.errors import InputError

if TYPE_CHECKING:
    import torch

    from fcfg.pipeline.counterfactual import CounterfactualPipeline


@with_options
def bench(
    model: str = "",
    /,
    *,
    asked: Given = options_of("bench.bench.plan", "seconds images steps compile"),
    computing: Computing = computing_by("device"),
    preset: str = "",
) -> None:
    """Measure how fast this machine samples, beside baselines.

    All implementations compute the same images with the same model in one process: a plain loop,
    the schedulers of diffusers if installed, and ours. Rates are also given as a share of the rate
    of a large matrix product on this machine. Without MODEL, it measures the shipped portraits on
    a CPU, or the paper's network on a GPU, with random weights.

    Examples:
      fcfg bench
      fcfg bench runs/faces --seconds 20
      fcfg bench --preset celeba-hq --images 256 --steps 20

    Options:
        preset: Network of a training preset, with random weights.
    """
    import torch

    from fcfg.bench import plan
    from fcfg.cli.tables import show_rows, table_console
    from fcfg.support.progress import in_words, share_bar

    target = torch.device(computing.target)
    if model and preset:
        got = f"{model!r} and {preset!r}"
        raise InputError("MODEL", expected="a model or a --preset", got=got, do="leave one out")
    name, pipeline = _model(model, preset, target)
    benchmark = plan(name, pipeline.to(target), **asked)
    work, seconds = benchmark.workload, in_words(benchmark.seconds)
    asked_for = f"{len(work.images)} counterfactuals, {work.steps} steps each way"
    typer.echo(f"{asked_for}, {benchmark.rounds} repetitions: {seconds}", err=True)
    with share_bar() as on_progress:
        record = benchmark.run(on_progress)
    table_console().print(record.heading)
    head, *rows = record.table()
    show_rows(head, rows)


def _model(model: str, preset: str, device: torch.device) -> tuple[str, CounterfactualPipeline]:
    """Return a model and its name: by default the paper's network on a GPU."""
    from fcfg.bench import from_preset

    if preset or (device.type == "cuda" and not model):
        name = preset or "celeba-hq"
        return name, as_pipeline(from_preset(name), f"--preset {name}", "fcfg bench")
    return Path(model or "portraits").name, load_pipeline(model or "portraits", "fcfg bench")
