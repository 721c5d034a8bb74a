"""The provenance of results: the command, the commit of the code, the machine."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path
from shutil import which
from typing import Any

import torch

from fcfg.evaluation.result_files import map_leaves
from fcfg.evaluation.result_schema import JSON


def collect_provenance(
    device: str, precision: str, *, compiled: bool = False, commit: str | None = None
) -> JSON:
    """Return the command, the commit and the environment, for a header."""
    if device == "cpu" and precision == "tf32":
        precision = "float32"
    return {
        "command": shlex.join(["fcfg", *map(_without_folder, sys.argv[1:])]),
        "commit": commit or _commit(),
        "environment": {
            "device": torch.cuda.get_device_name() if device == "cuda" else "CPU",
            "torch": torch.__version__,
            "precision": precision,
            "compiled": compiled,
        },
    }


def without_folders(value: Any) -> Any:
    """Replace absolute paths in JSON by their names, which say nothing of a machine.

    >>> without_folders({"data": {"path": "/data/faces", "size": 64}})
    {'data': {'path': 'faces', 'size': 64}}
    """
    return map_leaves(_without_folder, value)


def _without_folder(word: Any) -> Any:
    """Replace an absolute path by its name, also behind an option.

    >>> _without_folder("/data/faces"), _without_folder("--out=/data/x"), _without_folder("a/b")
    ('faces', '--out=x', 'a/b')
    """
    if not isinstance(word, str):
        return word
    option, equals, value = word.partition("=") if word.startswith("--") else ("", "", word)
    return option + equals + (Path(value).name if Path(value).is_absolute() else value)


def _commit() -> str | None:
    """Return the commit that git has of this file; None if git does not track it."""
    if which("git") is None:
        return None
    here = Path(__file__)
    for words in (["ls-files", "--error-unmatch", here.name], ["rev-parse", "HEAD"]):
        command = ["git", "-C", str(here.parent), *words]
        done = subprocess.run(command, capture_output=True, encoding="utf-8")
        if done.returncode != 0:  # installed, possibly inside another repository
            return None
    return done.stdout.strip()
