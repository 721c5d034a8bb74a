"""The counterfactuals that are computed, and a model with random weights to compute them with."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Set
from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from fcfg.causal.attributes import AttributeSpace, Column, Table
from fcfg.causal.graph import CausalGraph
from fcfg.causal.scm import StructuralCausalModel
from fcfg.model import AnyModel
from fcfg.pipeline.counterfactual import CounterfactualPipeline
from fcfg.storage.kinds import find_kind
from fcfg.support.errors import check_among
from fcfg.training import presets, read_config

AFFECTED, INVARIANT = 3.0, 1.2  #: weights, those of the paper


@dataclass(frozen=True, eq=False)
class Workload:
    """The counterfactuals that every implementation computes, under FCFG with two groups."""

    pipeline: CounterfactualPipeline
    images: Float[Tensor, "batch channel *size"] = field(repr=False)
    attributes: Table = field(repr=False)
    do: Mapping[str, Column] = field(repr=False)
    steps: int

    @classmethod
    def of(cls, pipeline: CounterfactualPipeline, images: int, steps: int) -> Workload:
        """Draw images and attributes, and choose an attribute that affects as few as possible."""
        names = pipeline.graph.nodes
        target = min(names, key=lambda name: len(pipeline.graph.affected({name})))
        attributes = random_table(pipeline.space, images)
        size = pipeline.denoiser.size or 64
        shape = (images, pipeline.denoiser.channels, size, size)
        pixels = torch.rand(shape, generator=torch.Generator().manual_seed(0)) * 2 - 1
        return cls(pipeline, pixels, attributes, {target: attributes[target][::-1].copy()}, steps)

    @property
    def groups(self) -> list[tuple[float, Set[str]]]:
        """Weight and attributes of the affected and of the invariant group, without empty ones."""
        affected = self.pipeline.graph.affected(self.do)
        invariant = set(self.pipeline.space.names) - affected
        return [group for group in ((AFFECTED, affected), (INVARIANT, invariant)) if group[1]]

    @property
    def rows_at_once(self) -> int:
        """Network rows of one step of the prediction: M + 1 per image."""
        return len(self.images) * (1 + len(self.groups))

    @property
    def evaluations(self) -> int:
        """Network rows in all: one per abduction step, M + 1 per prediction step."""
        return self.steps * (len(self.images) + self.rows_at_once)

    @property
    def row_flops(self) -> int:
        """Operations of the network for one image, counted without computing any."""
        denoiser = self.pipeline.denoiser
        network = copy.deepcopy(denoiser.network).to("meta", torch.float32)
        with torch.device("meta"), torch.no_grad(), FlopCounterMode(display=False) as counter:
            x, t = torch.empty(1, *self.images.shape[1:]), torch.empty(1, dtype=torch.int64)
            network(x, t, torch.empty(1, denoiser.embedder.condition_width))
        return counter.get_total_flops()


def from_preset(name: str) -> AnyModel:
    """Build the network of a training preset, with random weights and a graph without edges."""
    check_among("--preset", name, presets())
    config = read_config(name)
    graph = CausalGraph({attribute: [] for attribute in config.space.names})
    scm = StructuralCausalModel(config.space, graph)
    kind = find_kind(config.model.trains, f"--preset {name}")
    return kind.model(config.model.build(config.inputs), scm)


def random_table(space: AttributeSpace, count: int) -> Table:
    """Draw legal values of every attribute."""
    return space.decode(np.random.default_rng(0).uniform(-1, 1, (count, sum(space.widths))))
