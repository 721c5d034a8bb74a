"""What studies share: arguments, the record of how a result was made, and writing it."""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch

from fcfg.bench import BenchModel
from fcfg.bench.record import Table
from fcfg.evaluation.provenance import collect_provenance, without_folders
from fcfg.reports.tables import table_row
from fcfg.support.files import write_atomically


def model_arguments(description: str) -> argparse.ArgumentParser:
    """Return a parser with the arguments of studies of a trained model."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    add = parser.add_argument
    add("model", help="folder, or name of a shipped model")
    add("--data", type=Path, help="the data set, if it has moved since training")
    add("--batch-size", type=int, default=4096, help="network rows per call")
    add("--compile", action="store_true", help="compile the network")
    add("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    add("--commit", help="commit of the code, where git is missing")
    add("--out", type=Path, required=True, help="JSON file to write")
    return parser


def intervention_arguments(description: str) -> argparse.ArgumentParser:
    """Return a parser with the arguments of studies of one intervention on held-out images."""
    parser = model_arguments(description)
    parser.add_argument("--do", required=True, help="attribute to intervene on, and back")
    parser.add_argument("--images", type=int, default=64, help="largest number, balanced")
    return parser


def bench_arguments(description: str) -> argparse.ArgumentParser:
    """Return a parser with the arguments of studies of speed."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    add = parser.add_argument
    add("model", nargs="?", help="folder, or name of a shipped model")
    add("--preset", help="network of a training preset, with random weights")
    add("--quick", action="store_true", help="measure less")
    add("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    add("--commit", help="commit of the code, where git is missing")
    add("--out", type=Path, help="CSV file to write")
    return parser


def bench_model(args: argparse.Namespace) -> BenchModel:
    """Return the model of a study of speed: the paper's network by default."""
    device = torch.device(args.device)
    if args.model is not None:
        return BenchModel.load(args.model, device)
    return BenchModel.from_preset(args.preset or "celeba-hq", device)


def command(script: str, words: Sequence[str]) -> str:
    """Return the command line of a study, without the folders of this machine.

    >>> command("precision", ["/data/faces", "--do", "smiling"])
    'python tools/precision.py faces --do smiling'
    """
    return shlex.join(["python", f"tools/{script}.py", *without_folders(list(words))])


def provenance(script: str, words: Sequence[str], args: argparse.Namespace) -> dict[str, Any]:
    """Return the command, commit and environment of a study."""
    precision = getattr(args, "precision", "")
    about = collect_provenance(
        args.device,
        precision if isinstance(precision, str) else "",
        compiled=args.compile,
        commit=args.commit,
    )
    return about | {"command": command(script, words)}


def made_by(about: dict[str, Any]) -> str:
    """Return the command, device and commit of a stored study, below its table."""
    return f"`{about['command']}`, {about['environment']['device']}, {about['commit'][:12]}."


def write_json(path: Path, result: dict[str, Any]) -> None:
    """Write a result file atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps(result, indent=1, allow_nan=False).encode() + b"\n")


def show(tables: Iterable[Table]) -> None:
    """Print tables as Markdown."""
    for table in tables:
        print(f"{table.title}\n", *map(table_row, [table.columns, *table.rows]), sep="\n")
