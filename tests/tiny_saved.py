"""A diffusion model with all that a folder keeps, and a question to it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import fcfg
from fcfg.causal.attributes import AttributeSpace, Binary, Categorical, Continuous
from fcfg.causal.graph import CausalGraph
from fcfg.causal.scm import StructuralCausalModel
from fcfg.diffusion.denoiser import Denoiser
from fcfg.diffusion.embedder import AttributeEmbedder
from fcfg.diffusion.networks import Judge, JudgeConfig, UNet, UNetConfig
from fcfg.diffusion.schedule import NoiseSchedule
from fcfg.guidance import Guidance
from fcfg.judge import AttributeJudge
from fcfg.pipeline.counterfactual import CounterfactualPipeline

SPACE = AttributeSpace(
    [Continuous("age", 0, 100), Binary("finding"), Categorical("hair", ["dark", "grey", "red"])]
)


GRAPH = CausalGraph({"age": [], "finding": ["age"], "hair": ["age", "finding"]})


def table(n: int, seed: int = 0) -> dict:
    rng = np.random.default_rng(seed)
    return {
        "age": rng.uniform(0, 100, n),
        "finding": rng.integers(0, 2, n),
        "hair": rng.integers(0, 3, n),
    }


@pytest.fixture(scope="module")
def pipeline() -> CounterfactualPipeline:
    torch.manual_seed(0)
    config = UNetConfig(
        channels=1, size=8, base=8, multipliers=(1, 2), attention=(4,), condition=24
    )
    network = UNet(config)
    for parameter in network.parameters():
        parameter.data += 0.05 * torch.randn_like(parameter)
    network.head[-1].weight.data *= 0.01
    denoiser = Denoiser(
        network,
        AttributeEmbedder(SPACE, width=8),
        NoiseSchedule("cosine", 500),
        channels=1,
        stride=2,
        parameterisation="velocity",
    )
    scm = StructuralCausalModel(SPACE, GRAPH)
    scm.fit(table(200), steps=20)
    factors = {"age": (50.0, 17.0)}
    outputs = sum(SPACE.widths) + len(factors)
    network = Judge(JudgeConfig(channels=1, outputs=outputs, width=4))
    judge = AttributeJudge(network, SPACE, factors).eval()
    return CounterfactualPipeline(denoiser, scm, judge=judge, provenance={"seed": 3})


def answer(pipeline: CounterfactualPipeline) -> fcfg.Counterfactual:
    images = torch.rand(3, 1, 8, 8, generator=torch.Generator().manual_seed(1)) * 2 - 1
    do = {"age": lambda age: 100 - age}
    return pipeline.counterfactual(
        images, table(3, seed=1), do, guidance=Guidance.cfg(2.0), sampling=5
    )
