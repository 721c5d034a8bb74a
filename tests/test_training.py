"""A training run from its configuration to a pipeline; see also test_interruptions.py."""

from __future__ import annotations

import os
import subprocess
import time
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import fcfg
from awake import without_the_compiler
from fcfg.training import TrainingConfig, train
from fcfg.training.feed import Batch
from fcfg.training.objectives import DenoisingObjective, ReadingObjective
from fcfg.training.optimiser import Course, MovingAverage, optimiser_for
from fcfg.training.preflight import accelerator_for, check_batches
from fcfg.training.sections import Optimisation
from refusal import refused
from runs import Recorder, log_of, same, tiny, tiny_file, torchrun, weights


def test_a_run_leaves_a_pipeline_a_log_and_its_configuration(finished: Path) -> None:
    pipeline = fcfg.load(finished)
    faces = fcfg.datasets.portraits.sample(2, size=8)
    pair = pipeline.counterfactual(faces.images, faces.attributes, {"smiling": 1}, sampling=2)
    assert pair.images.shape == (2, 3, 8, 8)
    reading = pipeline.judge.read(faces.images)
    assert set(reading.factors) == set(pipeline.space.names)
    steps = [entry["step"] for entry in log_of(finished) if "loss" in entry]
    assert steps == [*range(1, 7), *range(1, 13)]  # judge, then diffusion
    assert [e["step"] for e in log_of(finished) if "validation_loss" in e] == [3, 6, 6, 12]
    assert pipeline.provenance["training"]["name"] == "tiny"
    assert pipeline.provenance["steps"] == {"judge": "6 of 6", "diffusion": "12 of 12"}
    assert fcfg.training.read_config(str(finished / "training/config.yaml")) == tiny()


def test_decay_is_no_part_of_the_gradient() -> None:
    """A weight that nothing pulls at shrinks by rate × decay of itself, not by the rate."""
    denoiser = tiny().model.build(tiny().inputs)
    before = {name: p.detach().clone() for name, p in denoiser.named_parameters()}
    for parameter in denoiser.parameters():
        parameter.grad = torch.zeros_like(parameter)
    settings = Optimisation(steps=1, learning_rate=1e-2, weight_decay=1e-1)
    optimiser_for(DenoisingObjective(denoiser, p_null=0.5), settings).step()
    for name, parameter in denoiser.named_parameters():
        torch.testing.assert_close(parameter.detach(), (1 - 1e-3) * before[name])


def test_held_out_losses_say_whether_the_condition_is_used() -> None:
    objective = DenoisingObjective(tiny().model.build(tiny().inputs), p_null=0.5, p_group=0.0)
    draws = objective.draw((4, 3, 8, 8), torch.Generator().manual_seed(0))
    variants = objective.variants(draws)
    assert variants["validation_loss"] == draws
    assert variants["validation_with_condition"][2].all()
    assert not variants["validation_without_condition"][2].any()
    assert all(variant[:2] == draws[:2] for variant in variants.values())
    for conditional in (0.1, 0.2, 0.3):
        losses = {"validation_with_condition": conditional, "validation_without_condition": 0.2}
        assert (objective.advice(losses) is not None) == (conditional >= 0.2)


def test_a_finished_run_is_not_run_again_and_a_longer_one_goes_on(finished, tmp_path) -> None:
    out = train(tiny(model={"steps": 8}, judge={"steps": 3}), tmp_path / "run")
    recorder = Recorder()
    before = (out / "config.json").read_bytes()
    train(tiny(model={"steps": 8}, judge={"steps": 3}), out, reporter=recorder)
    assert recorder.losses == {}
    assert any("all 8 steps are done" in line for line in recorder.said)
    with refused(f"run {out}", "model.steps of 8 or more", "7", "choose another --out"):
        train(tiny(model={"steps": 7}, judge={"steps": 3}), out)
    assert (out / "config.json").read_bytes() == before
    train(tiny(), out, "diffusion", reporter=recorder)
    assert recorder.begun[-1] == ("diffusion", 8, 12)
    assert "diffusion: going on at step 8 of 12" in recorder.said
    a, b = weights(out), weights(finished)
    assert all(torch.equal(a[key], b[key]) for key in a if key.startswith("image_model"))


def test_parts_can_be_trained_one_by_one(finished: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    for part in ("diffusion", "judge", "scm"):
        train(tiny(), out, part)
    assert same(out, finished)
    refused("part", "'judge'", "'jugde'").by(train, tiny(), out, "jugde")
    with pytest.raises(NotImplementedError, match="tuning"):  # a kind with it has its loss
        tiny().model.later_objective("tuning", None)


def test_a_graph_with_arrows_gets_its_mechanisms_fitted(tmp_path: Path) -> None:
    graph = {"smiling": ["male"], "male": [], "young": ["male"]}
    out = train(tiny(graph=graph, scm={"steps": 3}, run={"sheets": 2}), tmp_path / "run")
    scm = fcfg.load(out).scm
    assert scm.fitted_parents == {"smiling": ("male",), "young": ("male",)}
    assert [e["step"] for e in log_of(out) if e["part"] == "scm"] == [*range(1, 7)]
    sheets = sorted(path.name for path in (out / "training/sheets").iterdir())
    assert sheets == ["diffusion-step-000000006.png", "diffusion-step-000000012.png"]


def test_sheets_leave_out_what_cannot_be_answered_yet(tmp_path: Path) -> None:
    values = tiny(data={"format": "portraits-causal"}, run={"sheets": 1}).model_dump()
    levels = ["dark", "fair", "red", "grey"]
    age, hair = {"low": 20, "high": 80}, {"kind": "categorical", "levels": levels}
    values["attributes"] = {"smiling": {"kind": "binary"}, "hair": hair}
    values["attributes"]["age"] = {"kind": "continuous"} | age
    values["graph"] = {"smiling": [], "age": [], "hair": ["age"]}
    out = train(TrainingConfig.model_validate(values), tmp_path / "run", "diffusion")
    assert len(list((out / "training/sheets").iterdir())) == 1


def test_pieces_and_seeds_make_the_same_steps_and_another_seed_others(
    finished, tmp_path, monkeypatch
) -> None:
    out = train(tiny(model={"accumulate": 4}), tmp_path / "run")
    curves = [[e["loss"] for e in log_of(folder) if "loss" in e] for folder in (out, finished)]
    np.testing.assert_allclose(curves[0], curves[1], rtol=1e-4)
    monkeypatch.setattr("fcfg.training.feed._HOST_BYTES", 0)
    assert same(finished, train(tiny(), tmp_path / "streamed"))
    assert not same(finished, train(tiny(seed=1), tmp_path / "other"))


def test_training_learns_or_says_that_it_did_not(tmp_path: Path) -> None:
    config = tiny(
        model={"steps": 60, "learning_rate": 3e-3, "clip": 1.0, "publish": "best"},
        judge={"steps": 60, "learning_rate": 3e-3},
        run={"log_steps": 10, "checkpoint_steps": 1000, "validations": 3},
    )
    recorder = Recorder()
    train(config, tmp_path / "run", reporter=recorder)
    for part in ("judge", "diffusion"):
        losses = recorder.losses[part]
        assert losses[-1] < 0.7 * losses[0], part
    # A head that is still zero, so that no condition has an effect.
    config = tiny(model={"steps": 1, "learning_rate": 1e-30}, run={"validations": 1})
    train(config, tmp_path / "other", "diffusion", reporter=recorder)
    told = "diffusion: held-out images are denoised no better with their attributes"
    assert recorder.said[-1].startswith(told)


@pytest.mark.filterwarnings("ignore:.*script_method.*:DeprecationWarning")  # torch's own import
def test_compiling_changes_nothing(finished: Path, tmp_path: Path) -> None:
    with without_the_compiler():
        assert same(finished, train(tiny(run={"compile": True}), tmp_path / "run"))


def test_another_configuration_or_a_folder_that_cannot_be_the_models_is_refused(tmp_path) -> None:
    """Before anything is done."""
    out = train(tiny(), tmp_path / "run", "scm")
    with refused(str(out), "model.batch: 8", "model.batch: 16", "another --out"):
        train(tiny(model={"batch": 16}), out, "scm")
    train(tiny(run={"log_steps": 3}), out, "scm")  # how a run behaves may change
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    refused(f"model {tmp_path}", "that fcfg wrote").by(train, tiny(), tmp_path)
    with refused("out ", "a folder that can be written", "the file"):
        train(tiny(), tmp_path / "config.json" / "run")
    assert {path.name for path in tmp_path.iterdir()} == {"config.json", "run"}


@pytest.mark.long
@pytest.mark.parametrize("shard", [False, True])
def test_two_processes_train_as_one(shard: bool, tmp_path: Path) -> None:
    sections = {"run": {"device": "cpu"}, "model": {"clip": 0.5}}
    file = tiny_file(tmp_path, **sections)
    one, two = tmp_path / "one", tmp_path / "two"
    train(tiny(**sections), one, "diffusion")
    arguments = ["-m", "fcfg", "train", str(file), "--out", str(two), "--part", "diffusion"]
    arguments += ["--set", f"run.shard={str(shard).lower()}"]
    done = subprocess.run(torchrun(*arguments), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    curves = [[e["loss"] for e in log_of(folder) if "loss" in e] for folder in (one, two)]
    assert len(curves[0]) == 12
    np.testing.assert_allclose(curves[0][:2], curves[1][:2], rtol=1e-6)
    np.testing.assert_allclose(curves[0], curves[1], rtol=2e-4)  # which Adam makes of rounding
    assert len(log_of(one)) == len(log_of(two))  # one of the two writes
    averages = [log_of(folder)[-1]["validation_loss"] for folder in (one, two)]
    assert averages[0] == pytest.approx(averages[1], rel=1e-3)


@pytest.mark.long
@pytest.mark.parametrize(("shard", "steps"), [(False, 120), (True, 60)])
def test_torchrun_starts_two_processes_again_if_one_is_killed_and_they_take_the_same_steps(
    shard: bool, steps: int, tmp_path: Path
) -> None:
    psutil = pytest.importorskip("psutil")
    run = {"device": "cpu", "checkpoint_steps": 4, "validations": 1, "shard": shard}
    file, part = tiny_file(tmp_path, run=run, model={"steps": steps}), ("--part", "diffusion")
    words = ["--max-restarts", "1", "-m", "fcfg", "train", str(file), *part, "--out"]
    whole, again = tmp_path / "whole", tmp_path / "again"
    # Otherwise processes that start again may read where the old ones listened: pytorch#135712.
    environment = {**os.environ, "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    how: dict[str, Any] = {"env": environment, "stderr": subprocess.PIPE}
    subprocess.run(torchrun(*words, str(whole)), check=True, **how)
    with subprocess.Popen(torchrun(*words, str(again)), **how) as agent:
        while not list(again.glob("training/**/step-*.safetensors")):
            assert agent.poll() is None
            time.sleep(0.01)
        children = psutil.Process(agent.pid).children(recursive=True)
        (second,) = [child for child in children if child.environ().get("RANK") == "1"]
        second.kill()
        _, said = agent.communicate()
    assert agent.returncode == 0, said
    assert b"going on at step" in said
    losses = [[e["loss"] for e in log_of(folder) if "loss" in e] for folder in (whole, again)]
    assert len(losses[0]) == steps
    assert losses[0] == losses[1]
    name = f"training/state/diffusion/step-{steps:09d}.safetensors"
    last = [folder / name for folder in (whole, again)]
    assert last[0].read_bytes() == last[1].read_bytes()


def test_a_process_trains_in_one_way_only_and_batches_divide_among_several(tmp_path: Path) -> None:
    with refused("judge.batch", "a multiple of 3", "--set judge.batch=6"):
        check_batches(tiny(), processes=3)
    accelerator_for(tiny().run)  # as by a run before
    config = tiny(run={"precision": "bf16"})
    with refused("run.precision and run.device", "float32 on cpu", "bf16 on cpu", "fcfg train"):
        train(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["ACCELERATE_USE_FSDP", "ACCELERATE_USE_DEEPSPEED"])
def test_shards_of_accelerate_are_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of ``run.shard`` have checkpoints that every number of processes reads."""
    monkeypatch.setenv(name, "true")
    refused(name, "data parallelism", "run.shard=true").by(accelerator_for, tiny().run)


def test_a_validation_loss_is_the_mean_over_images_whatever_their_batches() -> None:
    torch.manual_seed(0)
    config = tiny()
    objective = ReadingObjective(config.judge.build(config.inputs))
    images, values = torch.randn(5, 3, 8, 8).clamp(-1, 1), torch.randint(0, 2, (5, 3)).float()
    whole = Batch(images, values, torch.empty(5, 0))
    parts = [[whole], whole.split(4)]
    losses = [objective.mean_losses(batches, torch.Generator()) for batches in parts]
    assert losses[1] == pytest.approx(losses[0])


def test_rates_and_averages_follow_their_formulas() -> None:
    settings = Optimisation(steps=10, learning_rate=2.0, warmup=4, decay="cosine")
    course = Course("x", 0, steps=10, settings=settings)
    rates = [course.rate_at(step) for step in range(11)]
    assert rates[:5] == [0.5, 1.0, 1.5, 2.0, 2.0]
    assert (rates[7], rates[10]) == pytest.approx((1.0, 0.0))
    constant = Course("x", 0, steps=10, settings=Optimisation(steps=10, learning_rate=2.0))
    assert {constant.rate_at(step) for step in range(10)} == {2.0}
    # Against the recursion, written out.
    module = nn.Linear(1, 1, bias=False).requires_grad_(False)
    average, expected = MovingAverage(module, deepcopy(module), decay=0.5), None
    for n, value in enumerate([1.0, 5.0, -2.0, 4.0, 4.0, 0.0, 3.0, 1.0, 2.0, 8.0]):
        module.weight.fill_(value)
        average.update(n)
        decay = min(0.5, (1 + n) / (10 + n))
        expected = value if expected is None else decay * expected + (1 - decay) * value
        assert average.module.weight.item() == pytest.approx(expected)
