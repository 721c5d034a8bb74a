"""Evaluation mode for a while."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from torch import nn


@contextmanager
def evaluation_mode(module: nn.Module) -> Generator[None]:
    """Switch dropout off, and restore the mode of every submodule afterwards."""
    training = [part for part in module.modules() if part.training]
    for part in training:
        part.training = False
    try:
        yield
    finally:
        for part in training:
            part.training = True
