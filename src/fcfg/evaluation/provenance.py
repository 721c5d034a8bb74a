"""Under which circumstances results came about: the command, the code, the machine."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path
from shutil import which
from typing import Any

import torch

from fcfg.evaluation.result_files import JSON


def circumstances(
    device: str, precision: str, *, compiled: bool = False, commit: str | None = None
) -> JSON:
    """What a header says of the command, the commit and the environment.

    Args:
        device: 'cpu' or 'cuda'.
        precision: Of the network; a CPU has no TF32, and computes in float32 instead.
        compiled: Whether the network was.
        commit: Of the code; git is asked where it is None.
    """
    name = torch.cuda.get_device_name() if device == "cuda" else "CPU"
    if device == "cpu" and precision == "tf32":
        precision = "float32"
    return {
        "command": shlex.join(["fcfg", *map(_without_folder, sys.argv[1:])]),
        "commit": commit or _commit(),
        "environment": {
            "device": name,
            "torch": torch.__version__,
            "precision": precision,
            "compiled": compiled,
        },
    }


def without_folders(value: Any) -> Any:
    """JSON in which absolute paths are names.

    >>> without_folders({"data": {"path": "/data/faces", "size": 64}})
    {'data': {'path': 'faces', 'size': 64}}
    """
    match value:
        case str():
            return _without_folder(value)
        case dict():
            return {key: without_folders(part) for key, part in value.items()}
        case list() | tuple():
            return [without_folders(part) for part in value]
        case _:
            return value


def _without_folder(word: str) -> str:
    """Where files lay on one machine is nobody's concern.

    >>> _without_folder("/data/faces"), _without_folder("--out=/data/x"), _without_folder("a/b")
    ('faces', '--out=x', 'a/b')
    """
    option, equals, value = word.partition("=") if word.startswith("--") else ("", "", word)
    return option + equals + (Path(value).name if Path(value).is_absolute() else value)


def _commit() -> str | None:
    """What git says of this very file; None where it is not among those that git keeps."""
    if which("git") is None:
        return None
    here = Path(__file__)
    for words in (["ls-files", "--error-unmatch", here.name], ["rev-parse", "HEAD"]):
        command = ["git", "-C", str(here.parent), *words]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:  # installed, in somebody else's repository or in none
            return None
    return done.stdout.strip()
