"""``fcfg demo``: the shipped model on new drawings, beside the true counterfactuals."""

from __future__ import annotations

from pathlib import Path

from fcfg.cli.computing import Computing, computing_by, load_pipeline
from fcfg.cli.evaluate import run_and_show
from fcfg.cli.options import with_options

_MODEL = "portraits-128"


@with_options
def demo(
    *,
    computing: Computing = computing_by("device"),
    full: bool = False,
    out: Path | None = None,
    overwrite: bool = False,
) -> None:
    """Show in minutes what factored guidance is for, on drawn faces.

    The shipped model is asked what new drawings would look like with their smile, sex or age
    flipped. Because the faces are drawn, the true answers are known, and the report shows
    them beside the model's. A finished run is shown again; --overwrite starts it again.

    Examples:
      fcfg demo
      fcfg demo --full --device cuda

    Options:
        full: 1,000 drawings, all rules, and reversals: for a GPU, or overnight.
    """
    from fcfg.evaluation import Evaluation, choose_subset, find_evaluators, find_experiment
    from fcfg.evaluation.provenance import collect_provenance

    target = computing.target
    pipeline = load_pipeline(_MODEL, "fcfg demo").to(target).prepare()
    experiment = find_experiment(f"portraits/{'core' if full else 'demo'}", model=pipeline)
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
        evaluation.folder.discard()
    if evaluation.folder.is_finished():
        print(f"{evaluation.out} holds a finished run; --overwrite starts it again.")
    run_and_show(evaluation, target, overwrite=overwrite)
