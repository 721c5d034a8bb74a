"""Tensors, and those inside of dataclasses and tuples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass, replace
from typing import Any

import torch
from torch import Tensor

from fcfg.support.errors import InputError


def mapped(function: Callable[[Tensor], Tensor], part: Any) -> Any:
    """Apply a function to every tensor; all else stays as it is."""
    if isinstance(part, Tensor):
        return function(part)
    if is_dataclass(part) and not isinstance(part, type):
        names = vars(part).items()
        return replace(part, **{name: mapped(function, value) for name, value in names})
    return tuple(mapped(function, value) for value in part) if isinstance(part, tuple) else part


def joined(pieces: Sequence[Any], dim: int = 0) -> Any:
    """Concatenate the tensors of pieces that are alike; all else is that of the first one."""
    first = pieces[0]
    if isinstance(first, Tensor):
        return torch.cat(list(pieces), dim)
    if is_dataclass(first) and not isinstance(first, type):
        names = vars(first)
        return replace(first, **{n: joined([vars(p)[n] for p in pieces], dim) for n in names})
    if not isinstance(first, tuple):
        return first
    return tuple(joined(parts, dim) for parts in zip(*pieces, strict=True))


def tensors_in(part: Any) -> list[Tensor]:
    """Return all tensors, in order."""
    if isinstance(part, Tensor):
        return [part]
    parts = vars(part).values() if is_dataclass(part) else part if isinstance(part, tuple) else ()
    return [tensor for value in parts for tensor in tensors_in(value)]


def check_finite(subject: str, tensors: Mapping[str, Tensor]) -> None:
    """Refuse NaN and infinity, and name the first tensor that has some."""
    for name, tensor in tensors.items():
        # The extremes are NaN if any number is; ten times as fast as isfinite of each.
        if tensor.numel() and not all(bool(end.isfinite()) for end in tensor.aminmax()):
            got = f"NaN or infinity in '{name}'"
            do = "take another copy of the file, or look for a training that diverged"
            raise InputError(subject, expected="finite numbers", got=got, do=do)
