"""Module names of fcfg 0.1, which keep working for one release.

Version 0.1 had its modules directly under ``fcfg``; they are now in sub-packages. Importing an old
name, such as ``fcfg.attributes``, imports the new module with a ``DeprecationWarning``.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

#: New names of modules of 0.1.
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
    "training.settings": "training.config",
    "training.stopping": "training.loop",
}


class MovedFinder(MetaPathFinder, Loader):
    """Finder of modules by their names in 0.1."""

    def find_spec(self, fullname: str, path: object, target: object = None) -> ModuleSpec | None:
        """Find an old name; leave other names to the next finders."""
        package, _, name = fullname.partition(".")
        return ModuleSpec(fullname, self) if package == "fcfg" and name in MOVED else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Import the module by its new name, with a warning."""
        new = f"fcfg.{MOVED[spec.name.removeprefix('fcfg.')]}"
        warnings.warn(
            f"{spec.name} is now {new}; the old name will be removed in fcfg 0.3",
            DeprecationWarning,
            stacklevel=2,
        )
        return import_module(new)

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing, since the module was executed under its new name."""


def renamed(module: str, names: Mapping[str, str]) -> Callable[[str], object]:
    """Return the ``__getattr__`` of a module that knows old names of its own, with a warning.

    Args:
        module: Name of the module.
        names: New names by old ones.
    """

    def find(name: str) -> object:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        warnings.warn(
            f"{module}.{name} is now {names[name]}; the old name will be removed in fcfg 0.3",
            DeprecationWarning,
            stacklevel=2,
        )
        return getattr(sys.modules[module], names[name])

    return find


def install() -> None:
    """Install the finder, before those that could find folders left by an old checkout."""
    sys.meta_path.insert(0, MovedFinder())
