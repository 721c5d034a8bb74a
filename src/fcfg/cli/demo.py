"""``fcfg demo``: the shipped model on new drawings, beside the true counterfactuals."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fcfg.cli.computing import Computing, computing_by
from fcfg.cli.options import Out, Overwrite, with_options

if TYPE_CHECKING:
    from fcfg.evaluation import Evaluation

_MODEL = "portraits"


@with_options(computing=computing_by("device"))
def demo(
    computing: Computing,
    full: Annotated[
        bool,
        typer.Option(
            "--full", help="1,000 drawings, all rules, and reversals: for a GPU, or overnight."
        ),
    ] = False,
    out: Out = None,
    overwrite: Overwrite = False,
) -> None:
    """Show in minutes what factored guidance is for, on drawn faces.

    The shipped model is asked what new drawings would look like with their smile, sex or age
    flipped. Because the faces are drawn, the true answers are known, and the report shows
    them beside the model's. A finished run is shown again; --overwrite starts it again.

    Examples:
      fcfg demo
      fcfg demo --full --device cuda
    """
    from fcfg.cli.progress import resumable
    from fcfg.cli.tables import print_numbers
    from fcfg.evaluation import Evaluation, choose_subset, find_evaluators, find_experiment
    from fcfg.evaluation.provenance import collect_provenance
    from fcfg.pipeline.checkpoint import load_pipeline
    from fcfg.reports import compare, write_report

    target = computing.target
    pipeline = load_pipeline(_MODEL, "fcfg demo").to(target).prepare()
    experiment = find_experiment(f"{_MODEL}/core" if full else f"{_MODEL}/demo", model=pipeline)
    evaluation = Evaluation(
        pipeline,
        experiment,
        choose_subset(pipeline, experiment),
        find_evaluators(pipeline),
        out or Path("runs") / ("demo-full" if full else "demo"),
        model=_MODEL,
        provenance=collect_provenance(target, "tf32"),
    )
    if overwrite:
        evaluation.discard()
    if evaluation.is_finished():
        print(f"{evaluation.out} holds a finished run; --overwrite starts it again.")
    _announce(evaluation, target)
    with resumable(
        lambda: "finished rows are kept, run the same command to resume"
    ) as on_progress:
        evaluation.run(on_progress)
    comparison = compare(evaluation.out)
    print_numbers(comparison)
    print(f"Look at {write_report(comparison, overwrite=overwrite).page}")


def _announce(evaluation: Evaluation, device: str) -> None:
    from fcfg.reports.wording import steps_text

    names = ", ".join(f"do({do})" for do in evaluation.experiment.do)
    print(
        f"{len(evaluation.subset)} drawn faces that the model has never seen: {names};\n"
        f"{evaluation.experiment.title}.\n"
        f"{steps_text(evaluation.header)}; on {device}. Results go to {evaluation.out}.",
        flush=True,
    )
