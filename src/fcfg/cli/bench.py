"""``fcfg bench``: how fast this machine samples, beside baselines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fcfg.cli.options import Model, Options, Overwrite, with_options
from fcfg.support.errors import InputError
from fcfg.support.outputs import make_folder

if TYPE_CHECKING:
    import torch

    from fcfg.bench import BenchModel, Record


@with_options(
    asked=Options("bench.run.Bench", "images rows steps quick commit"),
    computing=Options("cli.computing.Computing", "device"),
)
def bench(
    asked: dict[str, Any],
    computing: dict[str, Any],
    model: Model = "",
    preset: Annotated[
        str,
        typer.Option(metavar="NAME", help="Network of a training preset, with random weights."),
    ] = "",
    only: Annotated[
        str, typer.Option(metavar="PART,…", help="Parts to measure: sampling, single.")
    ] = "",
    compile: Annotated[
        bool | None,
        typer.Option(help="Whether to measure the compiled pipeline, too; by default on a GPU."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE.csv", help="Write all rows to this file.")
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Measure how fast this machine samples, beside baselines.

    All implementations compute the same images with the same model in one process: a plain eager
    loop, the same with separate network calls, the schedulers of diffusers if installed, and ours.
    Rates are also given as a share of the rate of a large matrix product on this machine. Without
    MODEL, it measures the shipped portraits on a CPU, in some minutes, or the paper's network on a
    GPU, with random weights.

    Examples:
      fcfg bench
      fcfg bench --quick --only single
      fcfg bench --preset celeba-hq --images 1024 --steps 20 --out bench.csv
      fcfg bench runs/faces
    """
    import torch

    from fcfg.bench import PARTS, Bench
    from fcfg.cli.computing import Computing
    from fcfg.support.progress import share_bar

    target = torch.device(Computing(**computing).target)
    _check(model, preset, out, overwrite=overwrite)
    benchmark = Bench(
        _bench_model(model, preset, target),
        tuple(part.strip() for part in only.split(",")) if only else PARTS,
        compiled=target.type == "cuda" if compile is None else compile,
        **asked,
    )
    with share_bar() as on_progress:
        record = benchmark.run(on_progress)
    if out is not None:
        record.write(out)
    _show(record)


def _check(model: str, preset: str, out: Path | None, *, overwrite: bool) -> None:
    if model and preset:
        raise InputError(
            "MODEL",
            expected="a model or a --preset",
            got=f"{model!r} and {preset!r}",
            do="leave one out",
        )
    if out is not None and out.is_dir():
        raise InputError("--out", expected="a file", got=f"the folder {out}", do="name a file")
    if out is not None and out.exists() and not overwrite:
        raise InputError(
            "--out",
            expected="a file that does not exist yet",
            got=f"'{out}'",
            do="choose another name, or replace it with --overwrite",
        )
    if out is not None:
        make_folder(out.parent)


def _bench_model(model: str, preset: str, device: torch.device) -> BenchModel:
    from fcfg.bench import BenchModel

    if preset or (device.type == "cuda" and not model):
        return BenchModel.from_preset(preset or "celeba-hq", device)
    return BenchModel.load(model or "portraits", device)


def _show(record: Record) -> None:
    from fcfg.bench import heading, tables
    from fcfg.cli.tables import show_rows, table_console

    console = table_console()
    console.print(heading(record))
    for part in tables(record):
        show_rows(part.columns, part.rows, part.title)
        for note in part.notes:
            console.print(f"  {note}")
