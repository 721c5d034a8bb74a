"""Where the weights of metrics are looked for. Nothing is downloaded.

First the path one gives, then the folder that ``FCFG_WEIGHTS`` names, then the checkpoints of
torch's hub. Where nothing is found, a column of a table says what is missing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import torch

from fcfg.metrics.frechet import Inception
from fcfg.metrics.lpips import LPIPS
from fcfg.support.errors import InputError

VARIABLE = "FCFG_WEIGHTS"  #: names a folder with weights of metrics
_ALEXNET, _LINEAR = "alexnet-owt-7be5be79.pth", "alex.pth"


@dataclass(frozen=True)
class Missing:
    """Weights that were not found.

    >>> print(Missing("LPIPS", "put alex.pth there"))
    no weights for LPIPS: put alex.pth there
    """

    name: str  #: of the metric
    how: str  #: to get them, in a sentence

    def __str__(self) -> str:
        return f"no weights for {self.name}: {self.how}"


def find_lpips(path: str | Path | None = None) -> LPIPS | Missing:
    """LPIPS, if its weights are here.

    Args:
        path: A file with everything, or a folder that is searched; missing, it is refused.
    """
    files = _found(path, _lpips_files, "LPIPS weights")
    if files is not None:
        return LPIPS.load(*files)
    return Missing(
        "LPIPS",
        f"set {VARIABLE} to a folder with lpips_alex_full.pt, or with torchvision's {_ALEXNET} "
        f"and {_LINEAR} of the lpips package (weights/v0.1)",
    )


def find_inception(path: str | Path | None = None) -> Inception | Missing:
    """The network of FID, if its weights are here.

    Args:
        path: A TorchScript file, or a folder that is searched; missing, it is refused.
    """
    files = _found(path, _inception_files, "Inception weights")
    if files is not None:
        return Inception.load(*files)
    return Missing(
        "FID",
        f"set {VARIABLE} to a folder with inception_fid.pt, the 2015 Inception network as "
        "TorchScript from (n, 3, 299, 299) in [-1, 1] to 2048 features",
    )


def _found(
    path: str | Path | None, candidates: Callable[[Path], list[tuple[Path, ...]]], name: str
) -> tuple[Path, ...] | None:
    """The first set of files of which all exist, or None."""
    if path is not None and not Path(path).is_dir():
        return (Path(path),)
    for folder in _folders() if path is None else [Path(path)]:
        for files in candidates(folder):
            if all(file.is_file() for file in files):
                return files
    if path is None:
        return None
    wanted = " or ".join(" with ".join(f.name for f in files) for files in candidates(Path(path)))
    raise InputError(
        f"{name} {path}", expected=wanted, got="none of them", do="name another folder"
    )


def _folders() -> Iterator[Path]:
    folder = os.environ.get(VARIABLE)
    if folder:
        if not Path(folder).is_dir():
            raise InputError(
                VARIABLE, expected="a folder", got=f"'{folder}'", do="correct or unset it"
            )
        yield Path(folder)
    yield Path(torch.hub.get_dir()) / "checkpoints"


def _lpips_files(folder: Path) -> list[tuple[Path, ...]]:
    package = find_spec("lpips")  # not imported: it would bring torchvision along
    inside = [] if package is None else package.submodule_search_locations or []
    return [
        (folder / "lpips_alex_full.pt",),
        (folder / _ALEXNET, folder / _LINEAR),
        *((folder / _ALEXNET, Path(place) / "weights" / "v0.1" / _LINEAR) for place in inside),
    ]


def _inception_files(folder: Path) -> list[tuple[Path, ...]]:
    return [(folder / "inception_fid.pt",), (folder / "inception_fid_fp16storage.pt",)]
