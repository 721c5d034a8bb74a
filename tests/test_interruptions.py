"""Interrupted training runs resume without a difference."""

from __future__ import annotations

import re
import signal
from pathlib import Path
from random import Random
from shutil import copytree
from statistics import median
from typing import Any

import pytest
import torch

import fcfg
from fcfg.training import TrainingConfig, TrainingStopped, train
from fcfg.training.workspace import Workspace
from kills import kill_when_told, printed_elsewhere
from runs import MODELS, Recorder, largest_file, log_of, same, tiny


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose diffusion has taken four steps of twelve; copied by those who go on with it."""
    return train(tiny(model={"steps": 4}), tmp_path_factory.mktemp("runs") / "begun")


@pytest.mark.parametrize("at", [("judge", 5), ("diffusion", 7), ("diffusion", 8)])
def test_a_run_that_is_asked_to_stop_keeps_its_step_and_goes_on(finished, tmp_path, at) -> None:
    number, code = (signal.SIGTERM, 143) if at[1] == 7 else (signal.SIGINT, 130)
    said, found = stopped(at, number, tmp_path)
    assert (f"stopped at step {at[1]} " in said, found) == (True, code)
    again = Recorder()
    train(tiny(), tmp_path, reporter=again)
    assert (again.begun[0][0], again.begun[0][1]) == at
    assert same(tmp_path, finished)
    assert [e["step"] for e in log_of(tmp_path) if "loss" in e] == [*range(1, 7), *range(1, 13)]


def test_asked_twice_a_run_ends_at_once(tmp_path: Path) -> None:
    def twice() -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        train(tiny(), tmp_path / "run", reporter=Recorder(("diffusion", 7), twice))
    assert signal.getsignal(signal.SIGINT) is before


def test_a_run_need_not_reach_a_line_of_the_log_to_stop(tmp_path: Path) -> None:
    config = tiny(run={"log_steps": 100, "validations": 1})
    said, _ = stopped(("diffusion", 0), signal.SIGTERM, tmp_path, "diffusion", config=config)
    assert "stopped at step 1 of 12" in said
    assert Workspace(tmp_path, config).checkpoints("diffusion").steps() == [1]


ARROWS = {
    "graph": {"young": ["smiling"], "smiling": ["male"], "male": []},  # effects before causes
    "scm": {"steps": 3},
}


def stopped(
    at: tuple[str, int], number: int, out: Path, *part: str, config: TrainingConfig | None = None
) -> tuple[str, int]:
    """Message and exit code of a run that receives a signal at a step."""
    stopper = Recorder(at, lambda: signal.raise_signal(number))
    with pytest.raises(TrainingStopped) as caught:
        train(config or tiny(), out, *part, reporter=stopper)
    return str(caught.value), caught.value.code


def test_a_run_can_be_stopped_while_mechanisms_are_fitted(tmp_path: Path) -> None:
    config = tiny(**ARROWS)
    said, code = stopped(("scm", 4), signal.SIGINT, tmp_path, "scm", config=config)
    assert said.startswith("scm: stopped; run the same command")
    assert code == 130
    again = Recorder()
    train(config, tmp_path, "scm", reporter=again)
    assert again.begun == [("scm", 0, 6)]
    assert [entry["step"] for entry in log_of(tmp_path)] == [*range(1, 7)]  # each once, in order


def test_a_run_can_be_stopped_while_images_are_made(tmp_path: Path) -> None:
    said, code = stopped(("drawing portraits", 0), signal.SIGTERM, tmp_path)
    assert said.startswith("drawing portraits: stopped")
    assert (code, (tmp_path / "training/log.jsonl").exists()) == (143, False)


def test_a_loss_that_is_no_number_stops_the_run_and_spares_the_checkpoint(begun, tmp_path) -> None:
    out = copytree(begun, tmp_path / "run")
    kept = Workspace(out, tiny()).checkpoints("diffusion")
    broken = kept.read(4)
    for key, tensor in broken.tensors.items():
        if key.startswith("weights"):
            tensor.fill_(torch.nan)
    kept.write(broken)
    with pytest.raises(TrainingStopped, match="the loss became nan at or before step 5") as caught:
        train(tiny(), out)
    assert caught.value.code == 1
    assert kept.steps()[-1] == 4


def test_weights_that_are_no_numbers_are_never_written(tmp_path: Path) -> None:
    config = tiny(model={"learning_rate": 1e30}, run={"log_steps": 100})
    with pytest.raises(TrainingStopped, match=r"nothing was kept|is whole"):
        train(config, tmp_path / "run", "diffusion")
    for step in Workspace(tmp_path / "run", config).checkpoints("diffusion").steps():
        state = Workspace(tmp_path / "run", config).checkpoints("diffusion").read(step)
        assert all(bool(t.isfinite().all()) for k, t in state.tensors.items() if "weights" in k)


def test_a_pipeline_that_cannot_be_saved_stops_the_run_and_says_why(tmp_path: Path) -> None:
    """Which is not for want of room."""

    def spoil() -> None:
        (tmp_path / "config.json").write_text('{"model_type": "bert"}')

    with pytest.raises(TrainingStopped, match="something else") as caught:
        train(tiny(), tmp_path, "diffusion", reporter=Recorder(("diffusion", 2), spoil))
    assert "diffusion: step 4 is kept, but the pipeline could not" in str(caught.value)
    assert "make room" not in str(caught.value)
    (tmp_path / "config.json").unlink()
    recorder = Recorder()
    train(tiny(), tmp_path, "diffusion", reporter=recorder)
    assert recorder.begun == [("diffusion", 4, 12)]


def without_room(out: Path, room: int) -> str:
    """What a run says that cannot write a file of more bytes."""
    with largest_file(room), pytest.raises(TrainingStopped) as caught:
        train(tiny(), out)
    assert caught.value.code == 1
    return str(caught.value)


@pytest.mark.promise("A full disk stops a training, and its last whole state is kept")
def test_a_full_disk_stops_the_run_with_what_was_whole(begun: Path, tmp_path: Path) -> None:
    """Be it full of weights, or at a line of the log; the files it left half written go."""
    full, out = (copytree(begun, tmp_path / name) for name in ("full", "run"))
    assert "of step 4 is whole; make room" in without_room(full, 2**13)
    said = without_room(out, (out / "training/log.jsonl").stat().st_size + 10)
    assert re.search(r"log.jsonl could not .*too large", said)
    state = out / "training" / "state" / "diffusion"
    for folder in (out, out / "training", state):
        (folder / ".step-000000005.safetensors-9osnjpm7").write_bytes(b"half")
    train(tiny(), full)
    assert fcfg.load(full).provenance["steps"]["diffusion"] == "12 of 12"
    train(tiny(), out)  # the line that was cut short is no obstacle
    assert [e["step"] for e in log_of(out) if "loss" in e][-8:] == [*range(5, 13)]
    assert not list(out.rglob(".*"))


KILLED: dict[str, dict[str, Any]] = {
    "diffusion": {"steps": 28},
    "semantic": {"steps": 28},
    "hvae": {"steps": 16, "finetuning": {**MODELS["hvae"]["finetuning"], "steps": 27}},
}
MOMENTS = {  # the steps soon after which a run is killed: the first of its model, and later ones
    "diffusion": [("judge", 2), ("diffusion", 1), ("diffusion", 12)],
    "semantic": [("judge", 2), ("diffusion", 1), ("diffusion", 12)],
    "hvae": [("hvae", 5), ("finetuning", 1), ("finetuning", 14)],
}


def killed_config(kind: str) -> TrainingConfig:
    """Long enough to be killed on its way, with a checkpoint at every third step."""
    return tiny(kind, model=KILLED[kind], run={"checkpoint_steps": 3})


def killed_run(path: str, kind: str) -> None:
    """One run that nobody disturbs, and one that is killed again and again, and then ends."""
    folder, config, random = Path(path), killed_config(kind), Random(0)
    log, out = log_of(train(config, folder / "undisturbed")), folder / "killed"
    pace = median(entry["rate"] for entry in log if "rate" in entry)
    kills = [
        kill_when_told(
            lambda say, moment=moment: train(config, out, reporter=Recorder(moment, say)),
            random.uniform(0, 4) / pace,  # four steps write at least one checkpoint
        )
        for moment in MOMENTS[kind]
    ]
    going_on = Recorder()
    train(config, out, reporter=going_on)
    ((part, step, steps),) = going_on.begun
    print(all(kills), part, step, steps)


@pytest.mark.parametrize(  # rivals are stopped in test_rivals.py every time
    "kind", ["diffusion", *(pytest.param(k, marks=pytest.mark.long) for k in ("hvae", "semantic"))]
)
@pytest.mark.promise("A training that is killed goes on, and ends with the same bits (CPU)")
def test_a_run_that_is_killed_again_and_again_ends_with_the_same_weights(tmp_path, kind) -> None:
    """Really killed, at moments that a seed chooses; it goes on, in the last part."""
    killed, part, *steps = printed_elsewhere("test_interruptions", "killed_run", tmp_path, kind)
    assert (killed, part) == ("True", MOMENTS[kind][-1][0])
    assert 0 < int(steps[0]) < int(steps[1])
    out, undisturbed = tmp_path / "killed", tmp_path / "undisturbed"
    assert same(out, undisturbed)
    for trained in {part for part, _ in MOMENTS[kind]}:  # optimiser and multiplier, too
        one, other = (
            Workspace(folder, killed_config(kind)).checkpoints(trained).latest().tensors
            for folder in (out, undisturbed)
        )
        assert one.keys() == other.keys()
        assert all(torch.equal(one[key], other[key]) for key in one)
    logs = [
        [(e["part"], e["step"], e["loss"]) for e in log_of(folder) if "loss" in e]
        for folder in (out, undisturbed)
    ]
    assert logs[0] == logs[1]
    assert not list(out.rglob(".*"))  # nothing half-written is left, or it is invisible
