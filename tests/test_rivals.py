"""Every kind of model is trained, kept, loaded, asked and compared by the same commands."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch

import fcfg
from evaluations import asked, tiny_model
from fcfg.cli import main
from fcfg.evaluation import choose_subset, find_evaluators, find_experiment
from fcfg.training import TrainingStopped, read_config, train
from fcfg.training.preflight import describe
from fcfg.training.workspace import Workspace
from refusal import refused
from runs import MODELS, Recorder, log_of, same, tiny

FINETUNING = MODELS["hvae"]["finetuning"]


@pytest.fixture(scope="module")
def trained(shared: Callable[..., Path]) -> dict[str, Path]:
    """One finished run of each kind; that of the VAE keeps sheets."""

    def make(kind: str, folder: Path) -> None:
        train(tiny(kind, run={"sheets": int(kind == "hvae")}), folder)

    return {kind: shared(kind, partial(make, kind)) for kind in ("hvae", "semantic")}


# Training


@pytest.mark.parametrize(
    ("kind", "at"), [("semantic", ("diffusion", 7)), ("hvae", ("finetuning", 2))]
)
def test_a_run_that_was_stopped_ends_like_one_that_was_not(trained, tmp_path, kind, at) -> None:
    """With optimiser and multiplier, too; test_interruptions.py has kills."""
    config, (part, step) = tiny(kind), at
    stopper = Recorder(at, lambda: signal.raise_signal(signal.SIGINT))
    with pytest.raises(TrainingStopped, match=f"{part}: stopped at step {step} "):
        train(config, tmp_path, reporter=stopper)
    train(config, tmp_path)
    assert same(tmp_path, trained[kind])
    ends = (Workspace(run, config).checkpoints(part).latest() for run in (tmp_path, trained[kind]))
    one, other = (end.tensors for end in ends if end is not None)
    assert one.keys() == other.keys()
    assert all(torch.equal(one[key], other[key]) for key in one)


def test_fine_tuning_starts_from_the_vae_and_keeps_its_multiplier_legal(trained) -> None:
    workspace = Workspace(trained["hvae"], tiny("hvae"))
    tensors = workspace.checkpoints("finetuning").read(4).tensors
    assert tensors["weights.multiplier"] >= 0
    logged = [e for e in log_of(trained["hvae"]) if "validation_free_energy" in e]
    assert [entry["step"] for entry in logged] == [2, 4]
    first = [e["loss"] for e in log_of(trained["hvae"]) if e["part"] == "hvae" and "loss" in e]
    assert len(first) == 6
    assert {e.get("skipped", 0) for e in log_of(trained["hvae"])} == {0}
    bound = float(tensors["weights.bound"])
    assert abs(bound - first[-1]) < 0.5 * first[-1]  # the free energy of the pretrained network
    tuned = fcfg.load(trained["hvae"]).image_model
    before = workspace.config.model.build(workspace.config.inputs)
    before.load_state_dict(workspace.weights("hvae"))
    moved = [
        (a - b).abs().max() for a, b in zip(tuned.parameters(), before.parameters(), strict=True)
    ]
    assert 0 < max(moved) < 0.01  # four steps of 1e-4
    names = sorted(path.name for path in (trained["hvae"] / "training/sheets").iterdir())
    assert names == ["finetuning-step-000000004.png", "hvae-step-000000006.png"]


@pytest.mark.parametrize(("seed", "above"), [(0, False), (2, True)])
def test_the_multiplier_rises_above_the_bound_and_never_falls_below_zero(
    tmp_path: Path, seed: int, above: bool
) -> None:
    # The network stands still; the free energy of its batches is below or above the bound.
    still = {**FINETUNING, "learning_rate": 1e-9, "multiplier_rate": 0.1, "warmup": 1}
    config = tiny("hvae", model={"finetuning": still}, seed=seed)
    state = Workspace(train(config, tmp_path), config).checkpoints("finetuning").read(4)
    multiplier = float(state.tensors["weights.multiplier"])
    bound = float(state.tensors["weights.bound"])
    lines = [entry for entry in log_of(tmp_path) if entry["part"] == "finetuning"]
    logged = [entry["multiplier"] for entry in lines if "loss" in entry]
    assert len(lines) == 4 + 2  # two of them are of validations
    assert logged[-1] == lines[-1]["multiplier"] == multiplier
    assert all(entry["multiplier"] >= 0 for entry in lines)
    assert {entry["bound"] for entry in lines} == {bound}
    assert logged == (sorted(set(logged)) if above else [0] * 4)  # it rises at each step
    assert multiplier > 0.2 if above else multiplier == 0


HARD = {"finetuning": {**FINETUNING, "targets": "hard"}}
LOSSES = [("hvae", {"beta": 7.0}), ("finetuning", HARD), ("diffusion", {"kl_weight": 7.0})]


@pytest.mark.parametrize(("part", "changed"), LOSSES)
def test_what_a_configuration_says_of_a_loss_is_trained(trained, tmp_path, part, changed) -> None:
    kind = "semantic" if part == "diffusion" else "hvae"
    before = "scm", "judge", "hvae"
    for name in before[: before.index(part)] if part in before else before:
        state = trained[kind] / "training/state" / name
        if state.exists():
            shutil.copytree(state, tmp_path / "training/state" / name)
    train(tiny(kind, model=changed), tmp_path, part)
    first, other = (
        next(e["loss"] for e in log_of(folder) if e["part"] == part and "loss" in e)
        for folder in (trained[kind], tmp_path)
    )
    assert first != other


def test_fine_tuning_needs_what_it_tunes_and_the_judge_that_reads(tmp_path: Path) -> None:
    refused("part finetuning", "to be trained").by(train, tiny("hvae"), tmp_path, "finetuning")
    train(tiny("hvae"), tmp_path, "judge")
    refused("part finetuning", "no hvae").by(train, tiny("hvae"), tmp_path, "finetuning")
    refused("part", "'hvae'", "'diffusion'").by(train, tiny("hvae"), tmp_path, "diffusion")


def test_a_step_with_a_huge_gradient_is_not_taken_and_not_for_ever(tmp_path: Path) -> None:
    skipping = {"skip": 1e-9, "ema": 0.0}
    config = tiny("hvae", model=skipping)
    out = train(config, tmp_path, "hvae")
    state = Workspace(out, config).checkpoints("hvae").latest()
    assert not any(key.startswith("optimiser") for key in state.tensors)  # no step was taken
    lines = [entry for entry in log_of(out) if "rate" in entry]
    assert sum(entry["skipped"] for entry in lines) == 6
    with pytest.raises(TrainingStopped, match="too steep in 21 steps in a row at or before step"):
        train(tiny("hvae", model={**skipping, "steps": 40}), tmp_path, "hvae")
    wild = {"learning_rate": 1e30, "warmup": 0, "steps": 40}  # losses are no numbers soon
    seldom = {"validations": 1, "checkpoint_steps": 40}
    with pytest.raises(TrainingStopped, match=r"21 steps in a row|the loss became nan"):
        train(tiny("hvae", model=wild, run=seldom), tmp_path / "wild", "hvae")


# Configuration


def test_kinds_have_their_own_options_and_parts() -> None:
    for kind, changed, fragment in (
        ("diffusion", {"finetuning": FINETUNING}, "'finetuning'"),
        ("semantic", {"p_group": 0.1}, "'p_group'"),
        ("hvae", {"schedule": {"kind": "cosine"}}, "'schedule'"),
        ("hvae", {"widths": [8, 8]}, "must have 2 stages"),
        ("hvae", {"dropped": ["smilng"]}, "model.dropped"),
    ):
        with pytest.raises(fcfg.InputError, match=fragment):
            tiny(kind, model=changed)
    config = read_config("hvae-digits")
    dropped = config.model.shape(config.inputs).dropped
    assert dropped == tuple(range(2, 12))  # the digit, behind two single numbers
    for name, parts in (("hvae-digits", ["hvae"]), ("hvae-soft-digits", ["hvae", "finetuning"])):
        assert [part.name for part in read_config(name).model.parts] == parts


def test_configurations_extend_presets_and_describe_what_is_not_trained(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("extends: hvae-soft-portraits\nmodel: {steps: 7}\n")
    config = read_config(str(path))
    assert config.name == "mine"
    base = read_config("hvae-soft-portraits")
    assert config.model == base.model.model_copy(update={"steps": 7})
    assert config.data == read_config("portraits").data
    path.write_text("extends: portrait\n")
    refused("extends", "'portraits'", "'portrait'").by(read_config, str(path))
    config = tiny("hvae")
    description, network = describe(config), config.model.build(config.inputs)
    assert description.parameters == sum(p.numel() for p in network.parameters())
    assert (description.embedder_parameters, description.steps) == (0, 6)
    assert min(description.flops, description.activation_bytes) > 0
    assert "embedder" not in description.lines()[0]


# Questions


def test_the_default_is_asked_with_its_own_sampling(trained, tmp_path, capsys) -> None:
    model = fcfg.load("portraits")
    experiment = find_experiment("portraits/default", model=model)
    assert experiment.sampling == str(model.plan(["male"]).sampling)
    assert experiment.sampling != find_experiment("portraits/baselines", model=model).sampling
    own = {do: repr(model.plan([do]).setting) for do in experiment.do}
    asked_of = [question for question in experiment.questions if question[1] != "none"]
    assert asked_of == list(own.items())
    assert find_experiment("default", graph=model.graph, model=model).questions
    usual = ("none", "cfg:3.0", "fcfg:affected=3.0,invariant=1.2")  # without a model
    assert find_experiment("portraits/baselines").guidance == usual
    words = ["evaluate", str(trained["hvae"]), "default", "--show"]
    assert main(words) == 0
    assert "- temperature:0.1" in capsys.readouterr().out


def test_a_judge_of_other_attributes_is_refused_and_a_vae_has_no_path_to_anchor(trained) -> None:
    pipeline, other = tiny_model(), tiny_model("portraits-causal")
    refused("judge", "'age'").by(find_evaluators, pipeline, judge=other.judge)
    subset = choose_subset(pipeline, asked())
    own = find_evaluators(pipeline).read(subset.images)
    lent = find_evaluators(pipeline, judge=tiny_model().judge).read(subset.images)
    assert (own.scores["male"] == lent.scores["male"]).all()
    assert asked(guidance=("temperature:1",)).guidance == ("none", "temperature:1.0")
    with pytest.raises(fcfg.InputError, match="no path to anchor"):
        find_experiment("portraits/baselines", model=fcfg.load(trained["hvae"]), anchor=True)
