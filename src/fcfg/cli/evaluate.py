"""``fcfg evaluate``: measure a model with an experiment of the paper, or with your own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from fcfg.cli.computing import Computing, check_sampled, computing_by
from fcfg.cli.options import Given, options_of, with_options
from fcfg.support.errors import InputError

if TYPE_CHECKING:
    from fcfg.evaluation.evaluation import Evaluation


@with_options
def evaluate(
    model: str = "",
    experiment: str = "",
    /,
    *,
    changes: Given = options_of(
        "evaluation.experiment.Experiment",
        "images seed reverse cycles sampling anchor",
        changes=True,
    ),
    by: Given = options_of("evaluation.measurements.find_evaluators", "lpips inception judge"),
    kept: Given = options_of(
        "evaluation.evaluation.Evaluation", "cache", defaults={"cache": Path("runs/abductions")}
    ),
    computing: Computing = computing_by("batch_size precision compile device shard"),
    out: Path | None = None,
    data: Path | None = None,
    report: bool = True,
    commit: str | None = None,
    show: bool = False,
    list_: bool = False,
) -> None:
    """Evaluate a model on a table of the paper, or on your own sweep, with intervals.

    Every question is asked of the same held-out images, and the noise behind each image is
    inferred once. Interrupted runs resume with the same command. Several processes can share a
    run: give each its own --shard, and all the same folder.

    Examples:
      fcfg evaluate --list runs/faces
      fcfg evaluate runs/faces default --images 50
      fcfg evaluate runs/faces core --images 50
      fcfg evaluate runs/faces core --show > mine.yaml
      fcfg evaluate portraits portraits/core --images 50
      fcfg evaluate runs/celeba-hq celeba-hq/aff --sampling paper --precision bf16 --compile
      fcfg evaluate runs/hvae-portraits portraits/baselines --judge portraits
      fcfg evaluate runs/faces factorial --images 200
      fcfg evaluate runs/faces mine.yaml --out runs/mine --shard 0/2
      torchrun --nproc_per_node 4 -m fcfg evaluate runs/faces mine.yaml --out runs/mine

    Options:
        experiment: Name of an experiment (see --list): a kind such as core, built from the model's
            attributes; a name such as portraits/core; or a YAML file.
        report: Write the report when all rows are there.
        show: Print the experiment as YAML and exit.
        list_: List the experiments, or those that fit MODEL, and exit.
    """
    from fcfg.evaluation.presets import OWN, asks_the_model, experiments, find_experiment
    from fcfg.model import load
    from fcfg.storage import read_outline
    from fcfg.support.config_files import to_yaml

    if list_:
        kind, graph = read_outline(model) if model else (None, None)
        for name in experiments(graph, groups=kind is None or kind.traits.groups):
            print(f"{name:24} {find_experiment(name, graph=graph).title}")
        return
    if show and not experiment:
        model, experiment = "", model
    for subject, given in (("MODEL", model or show), ("EXPERIMENT", experiment)):
        if not given:
            wanted, do = "'fcfg evaluate MODEL EXPERIMENT'", f"fcfg evaluate --list {model}"
            raise InputError(subject, expected=wanted, got="none", do=f"see '{do.strip()}'")
    asked = {name: changes[name] for name in ("sampling", "anchor") if name in changes}
    if experiment.rpartition("/")[2] in ("default", "factorial"):
        _check_as_it_says(model, experiment, asked)
    graph = read_outline(model)[1] if model and experiment in OWN else None
    own = load(model) if model and (asks_the_model(experiment) or not show) else None
    if own is not None:
        check_sampled(own, **asked)
    chosen = find_experiment(experiment, graph=graph, model=own, **changes)
    if own is None or show:  # a run has a model
        print(to_yaml(chosen), end="")
        return
    from fcfg.cli.progress import ProgressReporter
    from fcfg.evaluation.evaluation import Evaluation
    from fcfg.evaluation.measurements import find_evaluators, judge_of
    from fcfg.evaluation.provenance import collect_provenance
    from fcfg.evaluation.subset import choose_subset, find_data
    from fcfg.pipeline.runtime import Execution

    part, target, compiled = computing.part, computing.target, computing.compile
    precision = Execution(computing.precision).on(target).precision
    pipeline = own.to(target).prepare(computing.precision)
    # These refuse before images are read.
    by["judge"] = judge_of(load(by["judge"]) if "judge" in by else pipeline)
    size = find_data(pipeline, data).size
    found = find_evaluators(pipeline, **by, fid=chosen.fid, size=size)
    with ProgressReporter(quiet=not computing.prints) as reporter:
        subset = choose_subset(pipeline, chosen, data=data, on_progress=reporter.progress)
    name = Path(model).resolve().name
    evaluation = Evaluation(
        pipeline,
        chosen,
        subset,
        found,
        out or Path("runs/evaluate") / name / chosen.name,
        model=name,
        provenance=collect_provenance(target, precision, compiled=compiled, commit=commit),
        shard=part,
        batch_size=computing.rows(pipeline, subset.images.shape[2:]),
        **kept,
    )
    evaluation.folder.is_finished()  # refuses a folder with another run before anything is printed
    pipeline.prepare(computing.precision, compile=compiled, batch_size=evaluation.block_size)
    run_and_show(evaluation, target, quiet=not computing.prints, report=report)


def _check_as_it_says(model: str, experiment: str, asked: dict[str, Any]) -> None:
    """Refuse an experiment that asks what a model says without a model, or with other answers."""
    if not model:
        wanted, do = "a model, which it asks", f"'fcfg evaluate MODEL {experiment}'"
        raise InputError(f"experiment {experiment}", expected=wanted, got="none", do=f"write {do}")
    if asked:
        (name, value), *_ = asked.items()
        wanted = f"none with the experiment {experiment}, which asks what the model says"
        do = "leave it out, or take the experiment 'baselines'"
        raise InputError(f"--{name}", expected=wanted, got=value, do=do)


def run_and_show(
    evaluation: Evaluation,
    device: str,
    *,
    quiet: bool = False,
    report: bool = True,
    overwrite: bool = False,
) -> None:
    """Say what will be done, do it, and print the table and the place of the report."""
    from fcfg.cli.progress import resumable

    if not quiet:
        _announce(evaluation, device)
    kept = f"finished rows are in {evaluation.out}, run the same command to resume"
    with resumable(lambda: kept, quiet=quiet) as on_progress:
        result = evaluation.run(on_progress)
    if result.missing:
        print(f"{len(result.rows):,} rows are there, {result.missing:,} are still to come")
        return
    from fcfg.cli.tables import print_numbers
    from fcfg.reports import compare, write_report

    comparison = compare(evaluation.out)
    print_numbers(comparison)
    if report:
        print(f"Look at {write_report(comparison, overwrite=overwrite).page}")


def _announce(evaluation: Evaluation, device: str) -> None:
    from fcfg.metrics import MIN_IMAGES
    from fcfg.reports.wording import steps_text, too_few

    experiment, subset = evaluation.experiment, evaluation.subset
    print(f"{experiment.name}: {experiment.title}" if experiment.title else experiment.name)
    questions, count = len(experiment.questions), len(subset)
    whole = " (the whole test split)" if subset.about.get("of") == count else ""
    images = "1 image" if count == 1 else f"{count} images"
    print(f"{images}{whole}, {questions} questions of each, on {device}")
    print(f"  {steps_text(evaluation.header)}")
    if count < MIN_IMAGES:
        print(f"  {too_few(count)}")
    for name, about in evaluation.evaluators.about.items():
        if "missing" in about:
            print(f"  {name}: {about['missing']}")
    print(f"  results: {evaluation.out}", flush=True)
