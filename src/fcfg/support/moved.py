"""Module names of fcfg 0.1, which keep working for one release.

Version 0.1 had its modules directly under ``fcfg``; they now live in rooms. Importing an old name,
such as ``fcfg.attributes``, gives the module that took its place, and a ``DeprecationWarning``.
"""

from __future__ import annotations

import sys
import warnings
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

#: The new place of every module of 0.1 that has moved.
MOVED = {
    **{name: f"causal.{name}" for name in ("attributes", "codes", "graph", "intervention")},
    **{name: f"causal.{name}" for name in ("mechanisms", "scm")},
    **{name: f"diffusion.{name}" for name in ("embedder", "networks", "schedule")},
    "denoise": "diffusion",
    **{name: f"pipeline.{name}" for name in ("batching", "checkpoint", "records")},
    "counterfactual": "pipeline.counterfactual",
    "execution": "pipeline.runtime",
    "judging": "judge",
    "experiments": "evaluation",
    "benchmarking": "bench",
    **{name: f"support.{name}" for name in ("config_files", "errors", "files", "fonts")},
    **{name: f"support.{name}" for name in ("images", "names", "outputs")},
    **dict.fromkeys(("digests", "seeds"), "support.hashing"),
    "refusals": "support.config_errors",
}


class MovedFinder(MetaPathFinder, Loader):
    """Finds a module by the name it had in 0.1."""

    def find_spec(self, fullname: str, path: object, target: object = None) -> ModuleSpec | None:
        """Answer for an old name; leave every other to the finders behind this one."""
        package, _, name = fullname.partition(".")
        return ModuleSpec(fullname, self) if package == "fcfg" and name in MOVED else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Import the module by its new name, with a warning to the importing code."""
        new = f"fcfg.{MOVED[spec.name.removeprefix('fcfg.')]}"
        warnings.warn(
            f"{spec.name} is now {new}; the old name will be removed in fcfg 0.3",
            DeprecationWarning,
            stacklevel=2,
        )
        return import_module(new)

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: the module has run under its new name."""


def install() -> None:
    """Let old names be found, before folders that an old checkout may have left behind."""
    sys.meta_path.insert(0, MovedFinder())
