"""Under which circumstances results came about: the command, the code, the machine."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path
from shutil import which

import torch

from fcfg.experiments.record import JSON


def circumstances(
    device: str, precision: str, *, compiled: bool = False, commit: str | None = None
) -> JSON:
    """What a header says of the command, the commit and the environment.

    Args:
        device: 'cpu' or 'cuda'.
        precision: Of the network.
        compiled: Whether the network was.
        commit: Of the code; git is asked where it is None.
    """
    name = torch.cuda.get_device_name() if device == "cuda" else "CPU"
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


def _without_folder(word: str) -> str:
    """Where files lay on one machine is nobody's concern."""
    return Path(word).name if Path(word).is_absolute() else word


def _commit() -> str | None:
    """What git says of the code's folder; None where there is none to ask."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    done = subprocess.run(command, capture_output=True, text=True) if which("git") else None
    return done.stdout.strip() if done is not None and done.returncode == 0 else None
