"""A diffusion model that answers in milliseconds, and what is asked of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import nn

from fcfg import AttributeJudge, CausalGraph, CounterfactualPipeline, StructuralCausalModel, UNet
from fcfg.causal.attributes import AttributeSpace, Binary, Categorical, Continuous, Table
from fcfg.diffusion import AttributeEmbedder, Denoiser, NoiseSchedule
from fcfg.diffusion.networks import Judge, JudgeConfig, UNetConfig
from fcfg.generation import Result, generate

SPACE = AttributeSpace(
    [Binary("smiling"), Continuous("age", 0, 100), Categorical("hair", ["dark", "grey", "red"])]
)
GRAPH = CausalGraph({"smiling": [], "age": [], "hair": ["age"]})
GIVEN = "smiling=0,age=40,hair=dark"
SIZE = 8


def randomised(module: nn.Module, scale: float, seed: int = 0) -> nn.Module:
    """Leave no weight at zero, where nothing would depend on anything."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in module.parameters():
        parameter.data += scale * torch.randn(parameter.shape, generator=generator)
    return module


def small_unet(**shape: Any) -> UNet:
    """With small predictions, as an untrained network's must be."""
    shape = {"size": SIZE, "base": 8, "multipliers": (1, 2), "attention": (), "blocks": 1} | shape
    network = UNet(UNetConfig(condition=24, **shape))
    for parameter in network.parameters():
        parameter.data += 0.05 * torch.randn_like(parameter)
    network.head[-1].weight.data *= 0.01
    return network


def people() -> Table:
    rng = np.random.default_rng(0)
    columns = {"smiling": rng.integers(0, 2, 200), "age": rng.uniform(0, 100, 200)}
    return columns | {"hair": rng.integers(0, 3, 200)}


def tiny_pipeline(channels: int = 3, *, judge: bool = True) -> CounterfactualPipeline:
    """A model that answers in milliseconds; the command line is tested with it, too."""
    return pipeline_over(SPACE, GRAPH, people(), judge=judge, channels=channels)


def pipeline_over(
    space: AttributeSpace, graph: CausalGraph, table: Table, *, judge: bool = True, **shape: int
) -> CounterfactualPipeline:
    """A model of three attributes that nobody trained."""
    torch.manual_seed(0)
    network = small_unet(**shape)
    embedder, schedule = AttributeEmbedder(space, width=8), NoiseSchedule("linear", 100)
    denoiser = Denoiser(network, embedder, schedule).eval()
    scm, reader = StructuralCausalModel(space, graph), None
    scm.fit(table, steps=5)
    if judge:
        config = JudgeConfig(channels=denoiser.channels, outputs=sum(space.widths), width=4)
        reader = AttributeJudge(Judge(config), space).eval()
    return CounterfactualPipeline(denoiser, scm, judge=reader, provenance={"seed": 3})


def draw(folder: Path, names: list[str], size: int = SIZE) -> list[Path]:
    """Write pictures of noise, each its own."""
    paths = [folder / name for name in names]
    for number, path in enumerate(paths):
        path.parent.mkdir(parents=True, exist_ok=True)
        bytes_ = np.random.default_rng(number).integers(0, 256, (size, size, 3), dtype=np.uint8)
        Image.fromarray(bytes_).save(path)
    return paths


def ask(
    pipeline: CounterfactualPipeline, files: list[Path], out: Path, **options: object
) -> list[Result]:
    asked = {"do": {"age": 90}, "attributes": GIVEN, "sampling": 3, "out": out} | options
    return generate(pipeline, files, **asked)
