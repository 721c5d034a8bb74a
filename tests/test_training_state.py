"""Checkpoints of a run: whole, few, and one writer at a time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from fcfg.support.files import single_writer
from fcfg.training.optimiser import fill_optimiser, optimiser_tensors
from fcfg.training.state import Checkpoint, Checkpoints, under_prefix, with_prefix
from refusal import refused
from runs import largest_file


def state(step: int, size: int = 4) -> Checkpoint:
    return Checkpoint(step, {"weights.a": torch.full((size,), float(step))}, {"best": None})


def test_what_was_written_is_read_and_what_is_damaged_is_refused_by_name(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path / "new" / "folder", keep=2)
    assert checkpoints.latest() is None
    checkpoints.write(Checkpoint(7, {"a": torch.arange(3)}, {"best": {"step": 7, "loss": 0.5}}))
    read = checkpoints.latest()
    assert (read.step, read.facts) == (7, {"best": {"step": 7, "loss": 0.5}})
    assert torch.equal(read.tensors["a"], torch.arange(3))
    path = checkpoints.path(7)
    path.write_bytes(path.read_bytes()[:-5])
    refused(str(path), "a training state", "delete this file").by(checkpoints.latest)


def test_only_the_last_and_the_best_are_kept_and_the_newest_stays_whole(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep=2)
    others = [tmp_path / "step-1.safetensors", tmp_path / ".step-000000001.safetensors-x"]
    for other in others:
        other.write_text("mine")
    for step in range(1, 7):
        checkpoints.write(state(step), best=2 if step > 1 else None)
    assert checkpoints.steps() == [2, 5, 6]
    assert all(other.read_text() == "mine" for other in others)
    folder = tmp_path / "full"
    checkpoints = Checkpoints(folder, keep=3)
    for step in (1, 2, 3):
        checkpoints.write(state(step))
    with largest_file(2**16), pytest.raises(OSError, match="File too large"):
        checkpoints.write(state(4, size=2**16))
    assert checkpoints.steps() == [3]  # the older ones made room
    assert checkpoints.read(3).step == 3
    assert [path.name for path in folder.iterdir()] == [checkpoints.path(3).name]


@pytest.mark.skipif(
    sys.modules.get("fcntl", 1) is None,
    reason="--bare took fcntl away, so the system frees no lock of a dead process",
)
@pytest.mark.promise("Only one process writes to a folder")
def test_one_writer_at_a_time_and_a_dead_one_does_not_count(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path\n"
        "from fcfg.support.files import single_writer\n"
        "with single_writer(Path(sys.argv[1])): print('held', flush=True); time.sleep(60)"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert other.stdout.readline() == "held\n"
    held = refused(str(tmp_path), f"process {other.pid} on", "another --out")
    with held, single_writer(tmp_path):
        pass
    other.kill()
    other.wait()
    other.stdout.close()
    for _ in range(2):
        with single_writer(tmp_path):
            pass


def test_prefixes_are_undone() -> None:
    tensors = {"a": torch.zeros(1), "b.c": torch.ones(1)}
    both = with_prefix("x", tensors) | with_prefix("xy", tensors)
    assert under_prefix("x", both) == tensors


def test_moments_have_the_memory_layout_of_their_weight(tmp_path: Path) -> None:
    """Fused Adam on a GPU refuses any other, and files keep none."""
    weight = torch.nn.Parameter(torch.randn(4, 3, 2, 2).to(memory_format=torch.channels_last))
    optimiser = torch.optim.Adam([weight])
    weight.grad = torch.randn_like(weight)
    optimiser.step()
    checkpoints = Checkpoints(tmp_path, keep=1)
    checkpoints.write(Checkpoint(1, optimiser_tensors(optimiser), {}))
    before = optimiser.state[weight]
    again = torch.optim.Adam([weight])
    fill_optimiser(again, checkpoints.read(1).tensors)
    after = again.state[weight]
    assert after.keys() == before.keys() == {"step", "exp_avg", "exp_avg_sq"}
    for name, tensor in after.items():
        assert torch.equal(tensor, before[name])
        assert tensor.stride() == before[name].stride()
