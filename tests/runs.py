"""A training run small enough for a test: drawings of 8×8 pixels, a network of one level."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

import fcfg
from fcfg.support.config_files import to_yaml, validate
from fcfg.support.progress import Reporter
from fcfg.training import TrainingConfig, run

TINY: dict[str, Any] = {
    "name": "tiny",
    "data": {"format": "portraits", "size": 8, "count": 48, "val": 16},
    "attributes": {name: {"kind": "binary"} for name in ("smiling", "male", "young")},
    "graph": {"smiling": [], "male": [], "young": []},
    "judge": {"width": 4, "batch": 8, "steps": 6},
    "run": {"checkpoint_steps": 4, "log_steps": 1, "validations": 2, "sheets": 0},
}
UNET = {"base": 8, "multipliers": [1], "blocks": 1}
DENOISING = {"batch": 8, "steps": 12, "learning_rate": 1e-3, "ema": 0.9, "network": UNET}
HVAE = {"encoder": "8b1d2,4b1d4,1b1", "decoder": "1b1,4b1,8b1", "widths": [8, 8, 16], "latent": 2}
HVAE |= {"batch": 8, "steps": 6, "warmup": 2, "ema": 0.9}
HVAE |= {"finetuning": {"batch": 8, "steps": 4, "ema": 0.5, "targets": "soft"}}
SEMANTIC = {**DENOISING, "latent": 4, "encoder_multipliers": [1, 2]}
MODELS: dict[str, Any] = {"diffusion": DENOISING, "semantic": SEMANTIC, "hvae": HVAE}

# Names, as YAML, that are not those of one plain folder.
NO_FOLDERS = ("''", ".", "..", "../../evil", "/tmp/evil", r"a\b", '"a\\nb"', "x" * 201, "é" * 101)


def tiny(kind: str = "diffusion", **sections: Any) -> TrainingConfig:
    """The tiny configuration of a kind of model with some keys of its sections changed."""
    values = dict(TINY)
    values["model"] = {"kind": kind, **MODELS[kind]}
    for name, section in sections.items():
        values[name] = (
            {**values.get(name, {}), **section} if isinstance(section, dict) else section
        )
    return validate(TrainingConfig, values, "configuration")


def tiny_file(folder: Path, kind: str = "diffusion", **sections: Any) -> Path:
    """The same as a file."""
    path = folder / "tiny.yaml"
    path.write_text(to_yaml(tiny(kind, **sections)))
    return path


def weights(folder: Path) -> dict[str, torch.Tensor]:
    """Of both networks of a model."""
    model = fcfg.load(folder)
    assert model.judge is not None
    modules = {"image_model": model.image_model, "judge": model.judge}
    return {
        f"{name}.{key}": tensor
        for name, module in modules.items()
        for key, tensor in module.state_dict().items()
    }


def same(one: Path, other: Path) -> bool:
    """Whether two models have the same weights, to the last bit."""
    a, b = weights(one), weights(other)
    return a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a)


def log_of(folder: Path) -> list[dict[str, Any]]:
    """The log of a run."""
    return [json.loads(line) for line in (folder / "training/log.jsonl").read_text().splitlines()]


def torchrun(*words: str) -> list[str]:
    """The command of two processes on this machine."""
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2"]
    return [*launch, "--standalone", *words]


PARTS = ("scm", "judge", "diffusion", "hvae", "finetuning")  # in the order of their training


class Recorder(Reporter):
    """A reporter that records everything, and acts once, at one step or soon after it.

    A run that goes on may begin behind that step.
    """

    def __init__(self, at: tuple[str, int] | None = None, act: Any = None) -> None:
        self.begun: list[tuple[str, int, int]] = []
        self.losses: dict[str, list[float]] = {}
        self.said: list[str] = []
        self.counts: list[tuple[str, int, int]] = []
        self.at, self.act = at, act

    def progress(self, activity: str, done: int, total: int, loss: float | None = None) -> None:
        if loss is not None:
            self.losses.setdefault(activity, []).append(loss)
        elif activity in PARTS:
            self.begun.append((activity, done, total))
        else:
            self.counts.append((activity, done, total))
        if self.at is not None and self._is_reached(activity, done, *self.at):
            self.at = None
            self.act()

    @staticmethod
    def _is_reached(activity: str, done: int, wanted: str, step: int) -> bool:
        if activity == wanted:
            return done >= step
        behind = wanted in PARTS and activity in PARTS[PARTS.index(wanted) + 1 :]
        return behind and done > 0

    def say(self, text: str) -> None:
        self.said.append(text)


@contextmanager
def largest_file(size: int) -> Generator[None]:
    """A system that writes no larger file, as one with a full disk writes none."""
    resource = pytest.importorskip("resource", reason="this platform limits no size of files")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def _once(check: Callable[[TrainingConfig, int], None]) -> Callable[[TrainingConfig, int], None]:
    passed: set[tuple[str, int]] = set()

    def checked(config: TrainingConfig, processes: int) -> None:
        asked = to_yaml(config), processes
        if asked not in passed:
            check(config, processes)
        passed.add(asked)

    return checked


# Tests train the same configurations again and again, and it takes a quarter of a tiny training to
# see whether their networks take their batches.
run.check_batches = _once(run.check_batches)
