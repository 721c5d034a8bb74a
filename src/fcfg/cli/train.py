"""``fcfg train``."""

from __future__ import annotations

import os
from pathlib import Path

import typer

from fcfg.cli.options import Given, options_of, with_options


@with_options
def train(
    source: str,
    /,
    *,
    of: Given = options_of("training.config.read_config", "data"),
    asked: Given = options_of("training.run.train", "part skip_bad"),
    out: Path | None = None,
    set_: list[str] | None = None,
    dry_run: bool = False,
) -> None:
    """Train a pipeline, or resume where an earlier run of the same command stopped.

    Presets:
      portraits, portraits-128, portraits-causal, celeba-hq, celeba-64, embed, mimic-cxr
      radiographs, digits
      portraits-dropout-02, portraits-dropout-groups, portraits-independence (ablations)
      hvae-portraits, hvae-celeba-64, hvae-digits (hierarchical VAEs)
      hvae-soft-portraits, hvae-soft-celeba-64, hvae-soft-digits
      sadcg-portraits, sadcg-celeba-64, sadcg-digits

    Examples:
      fcfg train portraits --dry-run
      fcfg train faces.yaml --out runs/faces
      fcfg train celeba-hq --data /data/CelebAMask-HQ --set model.batch=64
      torchrun --nproc_per_node 4 -m fcfg train celeba-hq --data /data/CelebAMask-HQ

    Options:
        source: Name of a preset, or path of a YAML file.
        out: Pipeline folder; runs/NAME by default.
        set_: Change one value; can be repeated.
        dry_run: Print the configuration and its cost, and stop.
    """
    from fcfg.training import read_config

    config = read_config(source, set_ or (), **of)  # a mistake is refused without torch
    from fcfg.cli.progress import ProgressReporter
    from fcfg.support.config_files import to_yaml
    from fcfg.training import TrainingStopped
    from fcfg.training import train as run
    from fcfg.training.preflight import describe

    if dry_run:
        typer.echo(to_yaml(config) + "\n".join(f"# {line}" for line in describe(config).lines()))
        return
    folder = out if out is not None else Path("runs") / config.name
    first = os.environ.get("RANK", "0") == "0"  # among the processes of torchrun
    try:
        with ProgressReporter(quiet=not first) as reporter:
            run(config, folder, **asked, reporter=reporter)
            reporter.say(f"done: {folder}")
    except TrainingStopped as stopped:
        if first:
            typer.echo(f"fcfg train: {stopped}.", err=True)
        raise typer.Exit(stopped.code) from None
