"""Checkpoints of a training run, complete at any moment.

A checkpoint is one safetensors file: weights, moving average and optimiser as tensors, the rest as
JSON in its header. It is written to a temporary file and renamed, so a kill never leaves a partial
one. The latest checkpoints and the best one are kept.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors import torch as safetensors
from torch import Tensor

from fcfg.support.errors import InputError
from fcfg.support.files import write_atomically

_STEP = re.compile(r"step-(\d{9})\.safetensors")


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """The state of one part of a run."""

    step: int  #: number of steps taken
    tensors: dict[str, Tensor]
    facts: dict[str, Any]  #: JSON values


class Checkpoints:
    """The checkpoints of one part of a run: so many latest ones, and the best."""

    def __init__(self, folder: Path, keep: int) -> None:
        self.folder, self.keep = folder, keep

    def steps(self) -> list[int]:
        """Return the steps that have a checkpoint, in order."""
        names = [path.name for path in self.folder.glob("step-*.safetensors")]
        return sorted(int(match[1]) for name in names if (match := _STEP.fullmatch(name)))

    def path(self, step: int) -> Path:
        """Return the path of the checkpoint of a step."""
        return self.folder / f"step-{step:09d}.safetensors"

    def write(self, checkpoint: Checkpoint, best: int | None = None) -> None:
        """Write a checkpoint, then delete old ones, but never that of the best step.

        If the disk is full, all but the latest and the best are deleted before a second attempt.
        """
        facts = {"step": checkpoint.step, **checkpoint.facts}
        tensors = {name: t.detach().cpu().contiguous() for name, t in checkpoint.tensors.items()}
        data = safetensors.save(tensors, metadata={"fcfg": json.dumps(facts)})
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            write_atomically(self.path(checkpoint.step), data)
        except OSError:
            self._prune(1, best)
            write_atomically(self.path(checkpoint.step), data)
        self._prune(self.keep, best)

    def _prune(self, keep: int, best: int | None) -> None:
        for step in self.steps()[:-keep]:
            if step != best:
                self.path(step).unlink(missing_ok=True)

    def read(self, step: int) -> Checkpoint:
        """Read the checkpoint of a step."""
        path = self.path(step)
        try:
            with safe_open(path, framework="pt") as file:
                facts = json.loads(file.metadata()["fcfg"])
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
            raise InputError(
                f"checkpoint {path}",
                expected="a training state that fcfg wrote",
                got=" ".join(str(error).split())[:200],
                do="delete this file to resume from the one before",
            ) from error
        return Checkpoint(facts.pop("step"), tensors, facts)

    def latest(self) -> Checkpoint | None:
        """Read the latest checkpoint, if there is one."""
        steps = self.steps()
        return self.read(steps[-1]) if steps else None


def with_prefix(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Add a prefix to the names of tensors."""
    return {f"{prefix}.{name}": tensor for name, tensor in tensors.items()}


def under_prefix(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors with a prefix, without it."""
    start = f"{prefix}."
    return {name[len(start) :]: t for name, t in tensors.items() if name.startswith(start)}
