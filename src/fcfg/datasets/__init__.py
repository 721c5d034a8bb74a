"""Data sets: drawn worlds, data sets on disk, and your own folder of images."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fcfg.datasets import base as base
    from fcfg.datasets import check as check
    from fcfg.datasets import folder as folder
    from fcfg.datasets import portraits as portraits
    from fcfg.datasets import registry as registry

__all__ = ["base", "check", "folder", "portraits", "registry"]
_LOADERS = ("celeba", "embed", "mimic", "morphomnist", "nih")


def __getattr__(name: str) -> object:
    """Import a submodule when it is first used (PEP 562)."""
    if name in __all__ or name in _LOADERS:
        return import_module(f"fcfg.datasets.{name}")
    raise AttributeError(f"module 'fcfg.datasets' has no attribute '{name}'")


def __dir__() -> list[str]:
    """Names of the data sets and of what they share, for completion."""
    return [*__all__, *_LOADERS]
