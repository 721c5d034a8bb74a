"""``fcfg evaluate``: a table of the paper, or a sweep of one's own, on a model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fcfg.support.errors import InputError

if TYPE_CHECKING:
    from fcfg.evaluation.evaluation import Evaluation
    from fcfg.evaluation.result_files import Result


def evaluate(
    model: Annotated[
        str, typer.Argument(help="Folder of a model, or the name of a shipped one.")
    ] = "",
    experiment: Annotated[
        str,
        typer.Argument(
            help="Name of an experiment (see --list): a kind, such as core, which is built from "
            "the model's attributes, or portraits/core; or a YAML file."
        ),
    ] = "",
    out: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Where to write; by default in runs/evaluate."),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The data set, if it is not where it was in training."),
    ] = None,
    images: Annotated[int | None, typer.Option(metavar="N", help="At most so many.")] = None,
    sampling: Annotated[
        str | None,
        typer.Option(
            metavar="'SOLVER GRID STEPS'",
            help="Solver, grid and number of steps, such as 'heun karras 10'; or default, paper "
            "(1,000 steps of DDIM), a solver, or a number of steps. The experiment's by default.",
        ),
    ] = None,
    quality: Annotated[
        str | None, typer.Option(metavar="default|paper", help="The same, by name alone.")
    ] = None,
    steps: Annotated[
        int | None, typer.Option(metavar="N", help="Number of steps, there and back.")
    ] = None,
    solver: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="ddim, fixed-point[:K], dpm-2m, heun or bdia[:GAMMA]."),
    ] = None,
    grid: Annotated[
        str | None, typer.Option(metavar="uniform|log-snr|karras", help="Spacing of the steps.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(metavar="N", help="Of all that is drawn at random.")
    ] = None,
    reverse: Annotated[
        bool | None, typer.Option(help="Whether to go back, too; the experiment says by default.")
    ] = None,
    shard: Annotated[
        str,
        typer.Option(
            metavar="I/N",
            help="Work on part I of N, counted from 0, of the images; by default on that of this "
            "process, under 'accelerate launch' or torchrun.",
        ),
    ] = "",
    batch_size: Annotated[
        str,
        typer.Option(metavar="N|auto", help="The most network rows at once; or as many as fit."),
    ] = "auto",
    precision: Annotated[
        str,
        typer.Option(
            metavar="auto|float32|tf32|bf16",
            help="Of the network, tf32 on a GPU by default; the sampler has float32.",
        ),
    ] = "auto",
    compile: Annotated[
        bool, typer.Option("--compile", help="Compile the network first; worth it on a GPU.")
    ] = False,
    device: Annotated[str, typer.Option(metavar="auto|cpu|cuda", help="Where to run.")] = "auto",
    lpips: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Weights of LPIPS; see docs/metrics.md.")
    ] = None,
    inception: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Weights of FID's network.")
    ] = None,
    cache: Annotated[
        Path,
        typer.Option(metavar="FOLDER", help="Where abductions are kept for other experiments."),
    ] = Path("runs/abductions"),
    report: Annotated[
        bool, typer.Option(help="Write the report, too, once all rows are there.")
    ] = True,
    commit: Annotated[
        str | None, typer.Option(help="Of the code, where git cannot be asked.")
    ] = None,
    show: Annotated[
        bool, typer.Option("--show", help="Print the experiment as YAML, and stop.")
    ] = False,
    list_all: Annotated[
        bool,
        typer.Option("--list", help="List the experiments, or those that fit MODEL, and stop."),
    ] = False,
) -> None:
    """Evaluate a model: a table of the paper, or a sweep of your own, with intervals.

    Every question is asked of the same held-out images; the noise behind each image is inferred
    once. Rows are written as they are finished: stop it whenever you like, and run the same
    command to go on. Several processes share a run, each with its --shard, in the same folder.

    Examples:
      fcfg evaluate --list runs/faces
      fcfg evaluate runs/faces core --images 50
      fcfg evaluate runs/faces core --show > mine.yaml
      fcfg evaluate portraits portraits/core --images 50
      fcfg evaluate runs/celeba-hq celeba-hq/aff --sampling paper --precision bf16 --compile
      fcfg evaluate runs/faces mine.yaml --out runs/mine --shard 0/2
      torchrun --nproc_per_node 4 -m fcfg evaluate runs/faces mine.yaml --out runs/mine
    """
    from fcfg.evaluation.presets import OWN, experiments, find_experiment
    from fcfg.pipeline.checkpoint import load, read_graph
    from fcfg.support.config_files import to_yaml

    if list_all:
        graph = read_graph(model) if model else None
        for name in experiments(graph):
            print(f"{name:24} {find_experiment(name, graph=graph).title}")
        return
    if show and not experiment:
        model, experiment = "", model
    for subject, given in (("MODEL", model or show), ("EXPERIMENT", experiment)):
        if not given:
            raise InputError(
                subject,
                expected="'fcfg evaluate MODEL EXPERIMENT'",
                got="none",
                do=f"see '{' '.join(['fcfg evaluate --list', *filter(None, [model])])}'",
            )
    chosen: Mapping[str, str | int | None] = {"steps": steps, "solver": solver, "grid": grid}
    if sampling is not None or quality is not None:
        from fcfg.sampling import combine_sampling

        chosen = combine_sampling(
            sampling or "default", quality=quality, solver=solver, grid=grid, steps=steps
        ).to_json()
    graph = read_graph(model) if model and experiment in OWN else None
    changes = {"images": images, "seed": seed, "reverse": reverse, **chosen}
    asked = find_experiment(experiment, graph=graph, **changes)
    if show:
        print(to_yaml(asked), end="")
        return
    from fcfg.cli.computing import chosen_device, chosen_rows, chosen_shard
    from fcfg.cli.progress import ProgressReporter, share_bar
    from fcfg.evaluation.evaluation import Evaluation
    from fcfg.evaluation.evaluators import find_instruments, judge_of
    from fcfg.evaluation.provenance import circumstances
    from fcfg.evaluation.subset import choose_subset
    from fcfg.pipeline.runtime import Execution

    part = chosen_shard(shard)
    first = bool(shard) or part[0] == 0  # of several processes on one terminal, one speaks
    execution, place = Execution(precision), chosen_device(device)
    pipeline = load(model).to(place).prepare(precision)
    judge_of(pipeline)  # or a refusal, before images are read
    with ProgressReporter(quiet=not first) as reporter:
        subset = choose_subset(pipeline, asked, data=data, on_progress=reporter.progress)
    name = Path(model).resolve().name
    height, width = subset.images.shape[-2:]
    evaluation = Evaluation(
        pipeline,
        asked,
        subset,
        find_instruments(pipeline, lpips, inception, fid=asked.fid, size=min(height, width)),
        out or Path("runs/evaluate") / name / asked.name,
        model=name,
        circumstances=circumstances(
            place, execution.on(place).precision, compiled=compile, commit=commit
        ),
        shard=part,
        batch_size=chosen_rows(batch_size, pipeline.denoiser, (height, width)),
        cache=cache,
    )
    evaluation.check_place()  # or a refusal, before anything is said
    at_once = evaluation.images_at_once  # an abduction's rows, of which those of others are made
    pipeline.prepare(precision, compile=compile, batch_size=at_once)
    if first:
        _announce(evaluation, place)
    try:
        with share_bar(quiet=not first) as share:
            result = evaluation.run(share)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"interrupted; what is finished is in {evaluation.out}, run the same command to go on"
        ) from None
    _show(result, evaluation.out, report=report)


def _announce(evaluation: Evaluation, place: str) -> None:
    from fcfg.metrics import MIN_IMAGES
    from fcfg.reports.wording import too_few

    experiment, subset = evaluation.experiment, evaluation.subset
    print(f"{experiment.name}: {experiment.title}" if experiment.title else experiment.name)
    questions, count = len(experiment.questions), len(subset)
    whole = " (the whole test split)" if subset.about.get("of") == count else ""
    print(
        f"{count} images{whole}, {questions} questions of each, "
        f"{experiment.steps} steps, on {place}"
    )
    if count < MIN_IMAGES:
        print(f"  {too_few(count)}")
    for name, about in evaluation.instruments.about.items():
        if "missing" in about:
            print(f"  {name}: {about['missing']}")
    print(f"  results: {evaluation.out}", flush=True)


def _show(result: Result, out: Path, *, report: bool) -> None:
    if result.missing:
        print(f"{len(result.rows):,} rows are there, {result.missing:,} are still to come")
        return
    from fcfg.cli.tables import print_summary
    from fcfg.evaluation.summary import summarise

    print_summary(summarise(result))
    if report:
        from fcfg.reports import write_report

        print(f"Report: {write_report(out).page}")
