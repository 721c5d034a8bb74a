"""The state of a training run on disk: whole at any moment, whoever pulls the plug.

One checkpoint is one safetensors file: weights, moving average and optimiser as tensors, the rest
as JSON in its header. It is written beside its name and renamed, so that a name always stands for
a whole file. The last ones are kept, and the best.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors import torch as safetensors
from torch import Tensor

from fcfg.support.errors import InputError
from fcfg.support.files import write_atomically

LAST_STEP = 10**9 - 1  # that the names of files have digits for
_STEP = re.compile(r"step-(\d{9})\.safetensors")


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """What a part of a run was at a step."""

    step: int  #: steps that are done
    tensors: dict[str, Tensor]
    facts: dict[str, Any]  #: JSON values


class Checkpoints:
    """The checkpoints of one part, in a folder of their own.

    Args:
        folder: Made when the first is written.
        keep: How many of the last ones stay; the best stays as well.
    """

    def __init__(self, folder: Path, keep: int) -> None:
        self.folder = folder
        self.keep = keep

    def steps(self) -> list[int]:
        """Steps of the whole checkpoints, in order."""
        names = [path.name for path in self.folder.glob("step-*.safetensors")]
        return sorted(int(match[1]) for name in names if (match := _STEP.fullmatch(name)))

    def path(self, step: int) -> Path:
        """Where the checkpoint of a step lies."""
        return self.folder / f"step-{step:09d}.safetensors"

    def write(self, checkpoint: Checkpoint, best: int | None = None) -> None:
        """Write a checkpoint, then let go of old ones.

        Where the disk is full, the old ones but the newest are let go of first, and the writing
        tried once more.

        Args:
            checkpoint: What to write.
            best: The step that stays whatever its age.
        """
        facts = {"step": checkpoint.step, **checkpoint.facts}
        own = {
            name: tensor.detach().cpu().contiguous() for name, tensor in checkpoint.tensors.items()
        }
        data = safetensors.save(own, metadata={"fcfg": json.dumps(facts)})
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
        """Read a checkpoint, or refuse one that somebody damaged."""
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
                do="delete this file, and the run goes on from the one before",
            ) from error
        return Checkpoint(facts.pop("step"), tensors, facts)

    def latest(self) -> Checkpoint | None:
        """The newest checkpoint."""
        steps = self.steps()
        return self.read(steps[-1]) if steps else None


def with_prefix(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors of one part under names of their own."""
    return {f"{prefix}.{name}": tensor for name, tensor in tensors.items()}


def under_prefix(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """What :func:`with_prefix` was given."""
    start = f"{prefix}."
    return {name[len(start) :]: t for name, t in tensors.items() if name.startswith(start)}


def optimiser_tensors(optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The moments of an optimiser, by the position of their parameter."""
    state = optimiser.state_dict()["state"]
    return {f"{p}.{name}": tensor for p, entry in state.items() for name, tensor in entry.items()}


def fill_optimiser(optimiser: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Give an optimiser back what :func:`optimiser_tensors` took.

    The moments get the memory layout of their parameter, which files do not keep: the fused
    optimisers of GPUs refuse any other.
    """
    parameters = [parameter for group in optimiser.param_groups for parameter in group["params"]]
    state: dict[int, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        position, name = key.split(".", 1)
        parameter = parameters[int(position)]
        alike = tensor.shape == parameter.shape
        kept = torch.empty_like(parameter).copy_(tensor) if alike else tensor
        state.setdefault(int(position), {})[name] = kept
    optimiser.load_state_dict({**optimiser.state_dict(), "state": state})
