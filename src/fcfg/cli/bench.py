"""``fcfg bench``: how fast this machine is, beside named references."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fcfg.support.errors import InputError
from fcfg.support.outputs import make_folder

if TYPE_CHECKING:
    import torch

    from fcfg.bench import Record, Subject


def bench(
    model: Annotated[
        str, typer.Argument(help="Folder of a model, or the name of a shipped one.")
    ] = "",
    preset: Annotated[
        str,
        typer.Option(metavar="NAME", help="The network of a training preset, random weights."),
    ] = "",
    images: Annotated[
        int | None, typer.Option(metavar="N", help="Counterfactuals at once in sampling.")
    ] = None,
    rows: Annotated[
        int | None,
        typer.Option(metavar="N", help="Network rows to compile for; as many as images."),
    ] = None,
    steps: Annotated[
        int | None, typer.Option(metavar="N", help="From image to noise, and back, in sampling.")
    ] = None,
    only: Annotated[
        str, typer.Option(metavar="PART,…", help="Of sampling, single, training, cost.")
    ] = "",
    compile: Annotated[
        bool | None, typer.Option(help="Whether to compile ours, too; by default on a GPU.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer images and repetitions: a first look.")
    ] = False,
    device: Annotated[str, typer.Option(metavar="auto|cpu|cuda", help="Where to run.")] = "auto",
    out: Annotated[
        Path | None, typer.Option(metavar="FILE.csv", help="Write every row to this file, too.")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the file of --out where it exists.")
    ] = False,
    commit: Annotated[
        str | None, typer.Option(metavar="HASH", help="Of the code, where git cannot be asked.")
    ] = None,
) -> None:
    """Measure how fast this machine samples and trains, beside what others would write.

    One process, one model, the same images for everybody: a straight eager loop first, the same
    with separate calls, the schedulers of diffusers where they are installed, and ours. Rates are
    also given as a share of a large matrix product, measured here. Without MODEL, the shipped
    portraits on a CPU (some minutes), the paper's network with random weights on a GPU.

    Examples:
      fcfg bench
      fcfg bench --quick --only sampling,single
      fcfg bench --preset celeba-hq --images 1024 --steps 20 --out bench.csv
      fcfg bench runs/faces --only cost
    """
    import torch

    from fcfg.bench import PARTS, Bench, Scale
    from fcfg.cli.computing import chosen_device
    from fcfg.cli.progress import share_bar

    place = torch.device(chosen_device(device))
    _check(model, preset, out, overwrite=overwrite)
    asked = tuple(part.strip() for part in only.split(",")) if only else PARTS
    scale = Scale.fitting(place, quick=quick, images=images, steps=steps, rows=rows)
    compiled = place.type == "cuda" if compile is None else compile
    benchmark = Bench(_subject(model, preset, place), scale, asked, compiled, commit)
    with share_bar() as share:
        record = benchmark.run(share)
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


def _subject(model: str, preset: str, place: torch.device) -> Subject:
    from fcfg.bench import preset_subject, stored_subject

    if not model and place.type == "cuda":
        preset = preset or "celeba-hq"
    return preset_subject(preset, place) if preset else stored_subject(model or "portraits", place)


def _show(record: Record) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    from fcfg.bench import heading, tables

    width = None if sys.stdout.isatty() else 140  # in a file, no terminal bounds a line
    console = Console(highlight=False, markup=False, emoji=False, width=width)
    console.print(heading(record))
    for found in tables(record):
        table = Table(title=found.title, box=box.SIMPLE_HEAD, title_justify="left")
        for number, name in enumerate(found.columns):
            table.add_column(name, justify="right" if number else "left")
        for cells in found.rows:
            table.add_row(*cells)
        console.print(table)
        for note in found.notes:
            console.print(f"  {note}")
