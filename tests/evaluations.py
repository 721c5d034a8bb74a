"""Evaluations small enough for a test: a tiny model, a few drawings of 8×8 pixels, two steps."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import fcfg
from face_folder import write_table
from fcfg.answers import Question
from fcfg.causal.scm import StructuralCausalModel
from fcfg.datasets import portraits
from fcfg.diffusion.denoiser import Denoiser
from fcfg.diffusion.embedder import AttributeEmbedder
from fcfg.diffusion.networks import Judge, JudgeConfig, UNet, UNetConfig
from fcfg.diffusion.schedule import NoiseSchedule
from fcfg.evaluation import (
    Evaluation,
    Evaluators,
    Experiment,
    Result,
    Subset,
    choose_subset,
    find_evaluators,
)
from fcfg.evaluation.result_files import Entries
from fcfg.judge import AttributeJudge
from fcfg.model import Action, AnyModel, Plan
from fcfg.pipeline.calibration import AttributeWeight, Calibration
from fcfg.pipeline.counterfactual import CounterfactualPipeline
from kills import kill_again_and_again

CFG, FCFG = "cfg:3.0", "fcfg:affected=3.0,invariant=1.2"
SIZE = 8


def asked(**changes: Any) -> Experiment:
    """Two interventions, three guidances, six images, two steps of DDIM."""
    values: dict[str, Any] = {
        "name": "tiny",
        "do": ("smiling", "smiling+male"),
        "guidance": (CFG, FCFG),
        "images": 6,
        "sampling": "ddim uniform 2",
    }
    return Experiment(**(values | changes))


class Network(nn.Module):
    """One convolution, and a shift that depends on the condition and the time."""

    def __init__(self, condition: int) -> None:
        super().__init__()
        self.pixels, self.shift = nn.Conv2d(3, 3, 3, padding=1), nn.Linear(condition, 3)
        for parameter in self.parameters():
            parameter.data *= 0.003  # so that two steps lead back to about where they began

    def forward(self, x: Tensor, t: Tensor, c: Tensor) -> Tensor:
        shift = self.shift(c) * (t / 1000).to(c)[:, None]
        return self.pixels(x).tanh() + shift[..., None, None]


def unet(condition: int) -> UNet:
    """A network that can be saved."""
    shape = UNetConfig(
        size=SIZE, base=8, multipliers=(1,), attention=(), blocks=1, condition=condition
    )
    return UNet(shape)


def tiny_model(variant: str = "portraits", *, saved: bool = False) -> CounterfactualPipeline:
    """A model of a drawn world that nobody trained; the same whenever it is made."""
    torch.manual_seed(0)
    space, graph = portraits.space(variant), portraits.graph(variant)
    network = unet(4 * len(space)) if saved else Network(4 * len(space))
    embedder = AttributeEmbedder(space, width=4)
    denoiser = Denoiser(network, embedder, NoiseSchedule(), channels=3).eval()
    scm = StructuralCausalModel(space, graph)
    known = portraits.sample(64, 1, SIZE, variant)
    if any(graph.parents.values()):
        scm.fit(known.attributes, steps=2)
    factors = {name: (float(c.mean()), float(c.std())) for name, c in known.factors.items()}
    config = JudgeConfig(outputs=sum(space.widths) + len(factors), width=4)
    judge = AttributeJudge(Judge(config), space, factors).eval()
    provenance = {"training": {"data": {"format": variant, "size": SIZE}}}
    return CounterfactualPipeline(denoiser, scm, judge=judge, provenance=provenance)


def calibration_of(pipeline: CounterfactualPipeline, **weights: float) -> Calibration:
    """A calibration of a model, as if it had been measured."""
    own: dict[str, Any] = {"off_target": 0.0, "curve": ((0.5, 1.0, 0.0), (3.0, 1.0, 0.0))}
    attributes = {
        name: AttributeWeight(weight=w, low=w, high=w, directions={}, **own)
        for name, w in weights.items()
    }
    about: dict[str, Any] = {"images": 2, "references": 2, "seed": 0, "data": {}}
    about |= {"rule": "contrast:1;anchor=true", "sampling": "ddim uniform 2"}
    digest = Calibration.digest(pipeline.denoiser)
    return Calibration(model=digest, attributes=attributes, **about)


@cache
def shared_model() -> CounterfactualPipeline:
    """The tiny model, for those who change nothing of it."""
    return tiny_model()


def evaluation(
    out: Path,
    experiment: Experiment | None = None,
    pipeline: CounterfactualPipeline | None = None,
    *,
    subset: Subset | None = None,
    evaluators: Evaluators | None = None,
    **more: Any,
) -> Evaluation:
    """An experiment on the tiny model, with its evaluators, in a folder."""
    experiment, pipeline = experiment or asked(), pipeline or shared_model()
    subset = subset or choose_subset(pipeline, experiment)
    evaluators = evaluators or find_evaluators(pipeline, size=SIZE)
    return Evaluation(pipeline, experiment, subset, evaluators, out, **({"pictures": 0} | more))


def rows_of(experiment: Experiment, model: AnyModel) -> dict[tuple[str, str], int]:
    """Network rows of every question about one image and one step, without the abduction."""

    def rows(do: str, plan: Plan[Any]) -> int:
        action = Action({}, (), 0)
        return Question(do, plan, lambda: action, experiment.returns(do)).rows

    return {(do, text): rows(do, plan) for (do, text), plan in experiment.plans(model).items()}


def answers(result: Result) -> Entries:
    """Rows by what they answer, without the time they took."""
    return {
        key: {k: v for k, v in row.items() if k != "seconds"} for key, row in result.rows.items()
    }


def flat(value: Any, name: str = "") -> dict[str, Any]:
    """All numbers and texts of nested JSON, by their paths."""
    if isinstance(value, dict):
        value = [(f"{name}/{key}", part) for key, part in value.items()]
    elif isinstance(value, list):
        value = [(f"{name}/{number}", part) for number, part in enumerate(value)]
    else:
        return {name: value}
    return {path: leaf for key, part in value for path, leaf in flat(part, key).items()}


@contextmanager
def counted_rows(pipeline: CounterfactualPipeline | None = None) -> Generator[list[int]]:
    """How many rows the network is asked for, call by call."""
    rows: list[int] = []

    def count(module: nn.Module, arguments: tuple[Tensor, ...]) -> None:
        rows.append(len(arguments[0]))

    with (pipeline or shared_model()).denoiser.network.register_forward_pre_hook(count):
        yield rows


def folder_model(folder: Path, count: int = 40, *, each: int = 0) -> CounterfactualPipeline:
    """The tiny model as if it had been trained on a folder of drawings, which is made.

    The first ``count`` are for testing, two more for what training needs. A person has some of
    them ``each``.
    """
    drawn = portraits.sample(count + 2, 7, SIZE)
    names = [f"{number:03}.png" for number in range(count + 2)]
    parts = ["test"] * count + ["train", "val"]
    folder.mkdir()
    for name, picture in zip(names, fcfg.to_pictures(drawn.images), strict=True):
        picture.save(folder / name)
    people = [f"p{number // each}" for number in range(count)] + ["x", "y"] if each else []
    table = {"file_name": names, "part": parts} | ({"who": people} if each else {})
    write_table(folder, table | drawn.attributes)
    pipeline = tiny_model()
    options = {"format": "folder", "path": str(folder), "size": SIZE, "split": "part"}
    options |= {"group": "who"} if each else {}
    pipeline.provenance = {"training": {"data": options}}
    return pipeline


def killed_evaluation(folder: str) -> None:
    """An evaluation that is killed again and again, and then ends."""
    out = Path(folder)
    chosen = evaluation(out, cache=out / "noise", block=2)

    def rehearsal(name: str) -> object:
        return evaluation(out.with_name(name), cache=out.with_name(f"{name}-noise"), block=2).run()

    print(kill_again_and_again(chosen.run, rehearsal, kills=8), chosen.run().missing)
