"""``fcfg demo``: the shipped model on drawings it has never seen, with the truth beside it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from fcfg.evaluation import Evaluation, Experiment

_MODEL = "portraits"


def demo(
    full: Annotated[
        bool,
        typer.Option("--full", help="1,000 drawings, all rules, and back: for a GPU, or a night."),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Where to write; runs/demo or runs/demo-full."),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Discard the run in the folder and compute anew.")
    ] = False,
    device: Annotated[str, typer.Option(metavar="auto|cpu|cuda", help="Where to run.")] = "auto",
) -> None:
    """Show in minutes what factored guidance is for, on faces that never were.

    Faces are drawn that the shipped model has never seen, and it is asked what they would look
    like had they smiled, been male, been young. The world is drawn, so the true answer is known,
    and shown beside the model's. A report to look at is written. A run that is finished is shown
    again; --overwrite computes it anew.

    Examples:
      fcfg demo
      fcfg demo --full --device cuda
    """
    from fcfg.cli.computing import chosen_device
    from fcfg.cli.progress import share_bar
    from fcfg.cli.tables import print_summary
    from fcfg.evaluation import Evaluation, choose_subset, find_experiment, find_instruments
    from fcfg.evaluation.provenance import circumstances
    from fcfg.evaluation.summary import summarise
    from fcfg.pipeline.checkpoint import load
    from fcfg.reports import reading, write_report
    from fcfg.reports.verdict import failures

    place = chosen_device(device)
    experiment = find_experiment(f"{_MODEL}/core" if full else f"{_MODEL}/demo")
    pipeline = load(_MODEL).to(place).prepare()
    evaluation = Evaluation(
        pipeline,
        experiment,
        choose_subset(pipeline, experiment),
        find_instruments(pipeline),
        out or Path("runs") / ("demo-full" if full else "demo"),
        model=_MODEL,
        circumstances=circumstances(place, "tf32"),
    )
    if overwrite:
        evaluation.discard()
    if evaluation.check_place():
        print(f"{evaluation.out} holds a finished run; --overwrite computes it anew.")
    _announce(evaluation, experiment, place)
    try:
        with share_bar() as told:
            result = evaluation.run(told)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            "interrupted; what is finished is kept, run the same command to go on"
        ) from None
    summary = summarise(result)
    print_summary(summary)
    if not failures(summary):  # which were said already
        print("\n" + "\n".join(reading(summary)) + "\n")
    print(f"Look at {write_report(evaluation.out, overwrite=overwrite).page}")


def _announce(evaluation: Evaluation, experiment: Experiment, place: str) -> None:
    names = ", ".join(f"do({do})" for do in experiment.do)
    print(
        f"{len(evaluation.subset)} drawn faces that the model has never seen: {names};\n"
        f"{experiment.steps} steps from image to noise, and back; on {place}. "
        f"Results go to {evaluation.out}.",
        flush=True,
    )
