"""Weights in shards; test_training.py has two processes that train as one, and start again."""

from __future__ import annotations

import subprocess
from collections.abc import Generator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import distributed, nn
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor, Shard

from fcfg.training import train
from fcfg.training.feed import Batch
from fcfg.training.preflight import accelerator_for
from fcfg.training.shards import local, shard
from fcfg.training.state import Checkpoint, Checkpoints
from refusal import refused
from runs import log_of, tiny, tiny_file, torchrun

SHARDS: dict[str, Any] = {"device": "cpu", "shard": True}
LAST = "training/state/diffusion/step-000000004.safetensors"
OTHERWISE = {"ema": None, "accumulate": 2, "clip": 0.5, "skip": 50.0, "independence": 0.1}


@pytest.fixture
def group() -> Generator[None]:
    """A group of processes that this one is all of."""
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


def latest(folder: Path) -> Checkpoint:
    checkpoint = Checkpoints(folder / "training/state/diffusion", 2).latest()
    assert checkpoint is not None
    return checkpoint


def losses(folder: Path) -> list[float]:
    return [entry["loss"] for entry in log_of(folder) if "loss" in entry]


def close(one: Checkpoint, other: Checkpoint) -> None:
    """After few steps; the mean of gradients has nothing that enlarges rounding."""
    assert {n: t.shape for n, t in one.tensors.items()} == {
        name: tensor.shape for name, tensor in other.tensors.items()
    }
    for name, tensor in one.tensors.items():
        if name.endswith("exp_avg"):
            torch.testing.assert_close(tensor, other.tensors[name], rtol=1e-4, atol=1e-7)


@pytest.mark.usefixtures("group")
@pytest.mark.parametrize("model", [{}, pytest.param(OTHERWISE, marks=pytest.mark.long)])
def test_a_single_shard_is_the_whole_and_a_restart_changes_no_bit(
    model: dict[str, Any], tmp_path: Path
) -> None:
    whole, shards, again = (tmp_path / name for name in ("whole", "shards", "again"))
    model = {**model, "steps": 4}
    train(tiny(model=model), whole, "diffusion")
    train(tiny(model=model, run=SHARDS), shards, "diffusion")
    train(tiny(model={**model, "steps": 2}, run=SHARDS), again, "diffusion")
    train(tiny(model=model, run={**SHARDS, "checkpoint_minutes": 1e-9}), again, "diffusion")
    close(latest(whole), latest(shards))
    kept = [folder / LAST for folder in (shards, again)]
    assert kept[0].read_bytes() == kept[1].read_bytes()
    np.testing.assert_allclose(losses(whole), losses(shards), rtol=1e-5)
    validated = [
        [entry["validation_loss"] for entry in log_of(folder) if "validation_loss" in entry]
        for folder in (whole, shards)
    ]
    assert len(validated[0]) == 2
    np.testing.assert_allclose(*validated, rtol=1e-5)


@pytest.mark.usefixtures("group")
@pytest.mark.parametrize("network", [{"multipliers": [1, 2]}, {"kind": "dit", "width": 64}])
def test_every_weight_is_in_a_shard_and_blocks_are_gathered_one_by_one(network) -> None:
    config = tiny(model={"network": {"base": 8, **network} if "kind" not in network else network})
    (part,) = config.model.parts
    objective = part.new_objective(config.inputs)
    shard(objective, accelerator_for(config.run))
    for parameter in objective.parameters():
        assert isinstance(parameter, DTensor)
        assert parameter.placements == (Shard(0),)
    units = [name for name, module in objective.named_modules() if isinstance(module, FSDPModule)]
    lists = [m for m in objective.subject.network.children() if isinstance(m, nn.ModuleList)]
    assert len(units) == 1 + sum(map(len, lists)) > 3


@pytest.mark.usefixtures("group")
def test_weights_that_change_after_a_validation_are_gathered_again() -> None:
    config, accelerator = tiny(), accelerator_for(tiny().run)
    (part,) = config.model.parts
    whole, shards = (part.new_objective(config.inputs) for _ in range(2))
    shard(shards, accelerator)
    weights = [local(p.detach()) for each in (whole, shards) for p in each.parameters()]
    numbers = torch.Generator().manual_seed(0)
    batch = Batch(
        torch.randn(4, 3, 8, 8, generator=numbers).clamp(-1, 1),
        torch.ones(4, 3),
        torch.empty(4, 0),
    )
    seen = set[float]()
    for _ in range(2):
        one, other = (
            objective.mean_losses([batch], torch.Generator().manual_seed(0))["validation_loss"]
            for objective in (whole, shards)
        )
        assert one == pytest.approx(other, rel=1e-5)
        seen.add(one)
        for weight in weights:
            weight.add_(0.05)
    assert len(seen) == 2


@pytest.mark.long
def test_one_process_goes_on_where_two_with_shards_stopped(tmp_path: Path) -> None:
    model, run = {"clip": 0.5}, {**SHARDS, "checkpoint_steps": 2}
    file = tiny_file(tmp_path, run=run, model={**model, "steps": 2})
    one, out = tmp_path / "one", tmp_path / "out"
    train(tiny(model={**model, "steps": 2}), one, "diffusion")
    arguments = ["-m", "fcfg", "train", str(file), "--out", str(out), "--part", "diffusion"]
    done = subprocess.run(torchrun(*arguments), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    close(latest(one), latest(out))
    for folder in (one, out):
        train(tiny(model=model), folder, "diffusion")
    np.testing.assert_allclose(losses(one), losses(out), rtol=2e-4)
    assert len(losses(out)) == 12


def test_what_cannot_be_in_shards_is_refused(tmp_path: Path) -> None:
    with refused("run.shard", "several processes", "torchrun"):
        train(tiny(run=SHARDS), tmp_path / "run")
    with refused("run", "compile", "shard"):
        tiny(run={"shard": True, "compile": True})
    assert not (tmp_path / "run").exists()


@pytest.mark.usefixtures("group")
def test_a_network_that_is_not_called_as_a_module_is_refused(tmp_path: Path) -> None:
    with refused("run.shard", "block by block", "part hvae", "run.shard=false"):
        train(tiny("hvae", run=SHARDS), tmp_path / "run")
