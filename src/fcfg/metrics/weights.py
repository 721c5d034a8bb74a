"""Weights of networks that metrics use: where to look for them, and how to read them.

Files are searched in the given path, then in the folder that ``FCFG_WEIGHTS`` names, then in the
checkpoints of torch's hub. Nothing is downloaded. A metric without weights is :class:`Missing`;
tables then say how to get them.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TypeVar

import torch

from fcfg.support.errors import InputError

VARIABLE = "FCFG_WEIGHTS"  #: environment variable that names a folder with weights
T = TypeVar("T")


@dataclass(frozen=True)
class Missing:
    """A metric that cannot be measured, such as one without weights."""

    what: str  #: what there is not
    how: str  #: why, or how to get it, in a sentence

    def __str__(self) -> str:
        return f"no {self.what}: {self.how}"


def find_weights(
    name: str,
    path: str | Path | None,
    candidates: Sequence[tuple[str | Path, ...]],
    load: Callable[..., T],
    how: str,
) -> T | Missing:
    """Load the first set of files that all exist; a path that has none of them is refused."""
    if path is not None and not os.path.isdir(path):
        return load(path)
    named, hub = os.environ.get(VARIABLE), Path(torch.hub.get_dir()) / "checkpoints"
    if path is None and named and not os.path.isdir(named):
        raise InputError(VARIABLE, expected="a folder", got=f"'{named}'", do="correct or unset it")
    usual = [Path(named), hub] if named else [hub]
    for folder in usual if path is None else [Path(path)]:
        for names in candidates:
            files = [folder / file for file in names]
            if all(file.is_file() for file in files):
                return load(*files)
    if path is None:
        return Missing(f"weights for {name}", f"set {VARIABLE} to a folder with {how}")
    wanted = " or ".join(" with ".join(Path(n).name for n in names) for names in candidates)
    raise InputError(
        f"{name} weights {path}", expected=wanted, got="none of them", do="name another folder"
    )


def read_weights(
    name: str, path: Path, read: Callable[[BytesIO], T], expected: str
) -> tuple[T, str]:
    """Return the contents of a file and its SHA-256."""
    try:
        data = path.read_bytes()
        return read(BytesIO(data)), hashlib.sha256(data).hexdigest()
    except Exception as error:  # torch raises many kinds for broken files
        reason = error.strerror if isinstance(error, OSError) else None
        got = reason or f"another file ({type(error).__name__})"
        do = "check the path, and fetch the file again if it is broken"
        raise InputError(f"{name} weights {path}", expected=expected, got=got, do=do) from error
