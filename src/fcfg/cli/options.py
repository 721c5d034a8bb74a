"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

Model: TypeAlias = Annotated[
    str, typer.Argument(help="Folder of a model, or name of a shipped model.")
]
Steps: TypeAlias = Annotated[
    int | None, typer.Option(metavar="N", help="Number of steps from image to noise, and back.")
]
Solver: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="ddim, fixed-point[:K], dpm-2m, heun or bdia[:GAMMA]."),
]
Grid: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="uniform|quadratic|log-snr|karras", help="Spacing of the steps."),
]
Anchor: TypeAlias = Annotated[
    bool | None,
    typer.Option(
        "--anchor/--no-anchor",
        help="Subtract the errors that the same way back makes on the factual image; by default "
        "as the guidance says.",
        show_default=False,
    ),
]
BatchSize: TypeAlias = Annotated[
    str,
    typer.Option(
        metavar="N|auto", help="Largest number of network rows per call; auto: as many as fit."
    ),
]
Precision: TypeAlias = Annotated[
    str,
    typer.Option(
        metavar="auto|float32|tf32|bf16",
        help="Precision of the network; auto is tf32 on a GPU. The sampler uses float32.",
    ),
]
Data: TypeAlias = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Folder of the data set, if it has moved since training."),
]
Device: TypeAlias = Annotated[str, typer.Option(metavar="auto|cpu|cuda", help="Device to run on.")]
Shard: TypeAlias = Annotated[
    str,
    typer.Option(
        metavar="I/N",
        help="Work on part I of N of the images, counted from 0; by default on the part of this "
        "process under 'accelerate launch' or torchrun.",
    ),
]
Commit: TypeAlias = Annotated[
    str | None, typer.Option(metavar="HASH", help="Commit of the code, if git is not available.")
]
