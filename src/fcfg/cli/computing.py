"""How a command computes: device, precision, batch size, and its part of the images."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from fcfg.cli.options import options_of
from fcfg.support.errors import InputError, check_among, check_integer, quoted, together

if TYPE_CHECKING:
    from fcfg.model import AnyModel
    from fcfg.pipeline.counterfactual import CounterfactualPipeline

AUTO = "auto"


@dataclass(frozen=True)
class Computing:
    """How a command computes, as text of the command line."""

    batch_size: str = "auto"  #: largest number of network rows per call; auto: as many as fit
    precision: str = "auto"
    """Precision of the network; auto is tf32 on a GPU. The sampler uses float32."""
    compile: bool = False  #: compile the network first; worth it for many images on a GPU
    device: str = "auto"  #: device to run on
    shard: str = ""
    """Work on part I of N of the images, counted from 0; by default on the part of this process
    under 'accelerate launch' or torchrun."""

    @cached_property
    def target(self) -> str:
        """Name of the device, 'cpu' or 'cuda'; selects the GPU of this process."""
        import torch

        from fcfg.pipeline.runtime import own_gpu

        known = AUTO, "cpu", "cuda"
        if self.device.lower() == "gpu":  # of which 'cpu' is the nearest name
            expected, do = f"one of {quoted(known)}", "did you mean 'cuda'?"
            raise InputError("device", expected=expected, got=repr(self.device), do=do)
        check_among("device", self.device, known)
        there = torch.cuda.is_available()
        if self.device == "cuda" and not there:
            wanted = "cpu or auto, since torch finds no GPU here"
            raise InputError("device", expected=wanted, got="'cuda'", do="leave --device out")
        uses = there and self.device != "cpu"
        torch.cuda.set_device(own_gpu() if uses else -1)
        return "cuda" if uses else "cpu"

    @cached_property
    def part(self) -> tuple[int, int]:
        """Number and count of the shard: of this process, if none is given."""
        if not self.shard:
            return _from_environment("RANK", "0"), _from_environment("WORLD_SIZE", "1")
        number, slash, count = self.shard.partition("/")
        if slash and number.isdecimal() and count.isdecimal():
            return int(number), int(count)
        got = repr(self.shard)
        raise InputError("--shard", expected="I/N, such as 0/4", got=got, do="count from 0")

    def check(self) -> None:
        """Refuse all that is wrong at once, before a model is read."""
        from fcfg.pipeline.runtime import PRECISIONS

        together(
            lambda: self.target,
            lambda: self.part,
            lambda: check_among("precision", self.precision, PRECISIONS),
        )

    @property
    def prints(self) -> bool:
        """Whether this process prints: one of several on one terminal does."""
        return bool(self.shard) or self.part[0] == 0

    def rows(self, model: AnyModel, size: Sequence[int]) -> int:
        """Return the largest number of network rows per call, for images of a size."""
        if self.batch_size == AUTO:
            return model.fitting_rows(tuple(size))
        number = int(self.batch_size) if self.batch_size.isdecimal() else self.batch_size
        return check_integer("--batch-size", number, 1, 10**9, do="or 'auto', as much as fits")


def computing_by(names: str) -> Any:
    """Return options of which a command gets a :class:`Computing`."""
    return options_of("cli.computing.Computing", names, make=Computing)


def _from_environment(name: str, default: str) -> int:
    text = os.environ.get(name, default)
    if text.isdecimal():
        return int(text)
    raise InputError(name, expected="a number", got=repr(text), do="unset this variable")


def check_sampled(model: AnyModel, **options: object) -> None:
    """Refuse options of sampling for a model that has none."""
    for name, value in options.items():
        if value is not None and not model.traits.steps:
            wanted = f"none with a model of kind {model.kind}, which has no steps"
            raise InputError(f"--{name}", expected=wanted, got=value, do="leave it out")


def load_pipeline(path: str | os.PathLike[str], purpose: str) -> CounterfactualPipeline:
    """Read a diffusion pipeline; refuse other models."""
    from fcfg.model import load

    return as_pipeline(load(path), f"model {path}", purpose)


def as_pipeline(model: AnyModel, subject: str, purpose: str) -> CounterfactualPipeline:
    """Refuse a model without guidance."""
    from fcfg.pipeline.counterfactual import CounterfactualPipeline

    if isinstance(model, CounterfactualPipeline):
        return model
    raise InputError(
        subject,
        expected=f"a diffusion model, since {purpose} is about guidance",
        got=f"a model of kind '{model.kind}', which has none",
        do="choose another, or compare its settings with 'fcfg evaluate MODEL baselines'",
    )
