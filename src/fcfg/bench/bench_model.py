"""The model that is measured, and the counterfactuals it computes."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from fcfg.bench.timing import count_flops
from fcfg.causal.attributes import AttributeSpace, Categorical, Column, Continuous, Table
from fcfg.causal.graph import CausalGraph, Partition
from fcfg.causal.scm import StructuralCausalModel
from fcfg.datasets import portraits
from fcfg.diffusion.networks import UNet, UNetConfig
from fcfg.guidance import Guidance
from fcfg.pipeline.checkpoint import load_pipeline
from fcfg.pipeline.counterfactual import CounterfactualPipeline
from fcfg.pipeline.defaults import PAPER_GUIDANCE
from fcfg.support.errors import check_among
from fcfg.training import presets, read_config
from fcfg.training.models import new_denoiser


@dataclass(frozen=True, eq=False)
class BenchModel:
    """A model, which stays on the CPU, and the device on which copies of it are measured."""

    name: str
    pipeline: CounterfactualPipeline
    device: torch.device

    @classmethod
    def load(cls, name: str, device: torch.device) -> BenchModel:
        """Load a model.

        Args:
            name: Name of a shipped model, or a folder.
            device: Device to measure on.
        """
        return cls(Path(name).name, load_pipeline(name, "fcfg bench"), device)

    @classmethod
    def from_preset(cls, name: str, device: torch.device) -> BenchModel:
        """Build the network of a training preset, with random weights and a graph without edges.

        Args:
            name: Name of the preset.
            device: Device to measure on.
        """
        check_among("--preset", name, presets())
        config = read_config(name)
        denoiser = new_denoiser(config)
        with torch.random.fork_rng():
            torch.manual_seed(0)
            randomise_zero_layers(denoiser.network)
        graph = CausalGraph({attribute: [] for attribute in config.space.names})
        scm = StructuralCausalModel(config.space, graph)
        return cls(name, CounterfactualPipeline(denoiser, scm), device)

    @property
    def network(self) -> UNetConfig:
        """Configuration of the network."""
        network = self.pipeline.denoiser.network
        assert isinstance(network, UNet)  # so are all shipped networks and presets
        return network.config

    def fresh(self) -> CounterfactualPipeline:
        """Return a copy on the device, which the caller may change."""
        denoiser = copy.deepcopy(self.pipeline.denoiser).eval()
        return CounterfactualPipeline(denoiser, self.pipeline.scm).to(self.device)

    def workload(self, images: int, steps: int, *, size: int | None = None) -> Workload:
        """Choose images, attributes and an intervention.

        Args:
            images: Number of images.
            steps: Number of steps from image to noise, and back.
            size: Height and width of the images; those of training by default.
        """
        pixels, attributes = _images(self, images, size or self.network.size)
        target = _target(self.pipeline.graph)
        do = {target: attributes[target][::-1].copy()}
        return Workload(self, pixels, attributes, do, steps)


@dataclass(frozen=True, eq=False)
class Workload:
    """The counterfactuals that every implementation computes."""

    model: BenchModel
    images: Float[Tensor, "batch channel height width"] = field(repr=False)
    attributes: Table = field(repr=False)
    do: Mapping[str, Column] = field(repr=False)
    steps: int
    guidance: Guidance = PAPER_GUIDANCE
    partition: Partition | None = None  #: affected and invariant attributes if None

    @property
    def named_groups(self) -> Partition:
        """The groups that the guidance names, including empty ones."""
        return self.guidance.partition(self.model.pipeline.graph, self.do, self.partition)

    @property
    def groups(self) -> Partition:
        """The groups that are evaluated, without empty ones."""
        groups = self.named_groups.groups.items()
        return Partition({name: members for name, members in groups if members})

    @property
    def rows_at_once(self) -> int:
        """Network rows of one guided step of all images."""
        return len(self.images) * (len(self.groups) + 1)

    @property
    def evaluations(self) -> int:
        """Network rows in all: one per abduction step, M + 1 per prediction step."""
        return len(self.images) * self.steps * (len(self.groups) + 2)

    @property
    def row_flops(self) -> int:
        """Operations of the network for one of the images."""
        return row_flops(self.model.network, self.images.shape[-1])


def row_flops(config: UNetConfig, size: int) -> int:
    """Count the operations of a network for one image, without computing any.

    Args:
        config: Configuration of the network.
        size: Height and width of the image.
    """
    with torch.device("meta"), torch.no_grad():
        network = UNet(config).eval()
        x, c = torch.empty(1, config.channels, size, size), torch.empty(1, config.condition)
        t = torch.empty(1, dtype=torch.int64)
        return count_flops(lambda: network(x, t, c))


def random_table(space: AttributeSpace, count: int, seed: int = 0) -> Table:
    """Draw legal values of every attribute.

    >>> from fcfg.causal.attributes import Binary
    >>> random_table(AttributeSpace([Binary("smiling")]), 4)
    {'smiling': array([1, 1, 1, 0])}

    Args:
        space: The attributes.
        count: Number of values of each.
        seed: Seed for the values.
    """
    rng = np.random.default_rng(seed)
    table: Table = {}
    for attribute in space:
        if isinstance(attribute, Continuous):
            table[attribute.name] = rng.uniform(attribute.low, attribute.high, count)
        else:
            levels = attribute.width if isinstance(attribute, Categorical) else 2
            table[attribute.name] = attribute.column(rng.integers(0, levels, count))
    return table


def randomise_zero_layers(network: nn.Module) -> None:
    """Give layers that are initialised to zero the default weights of torch.

    The last one gets a hundredth of them: the first DDIM step from pure noise multiplies the
    output of the network by 156, and images should stay images.
    """
    layers = [
        module
        for module in network.modules()
        if isinstance(module, nn.Conv2d) and not module.weight.any()
    ]
    for module in layers:
        module.reset_parameters()
    for parameter in layers[-1].parameters():
        parameter.data *= 0.01


def _images(model: BenchModel, count: int, size: int) -> tuple[Tensor, Table]:
    """Draw portraits for a model of portraits at its own size, and random pixels otherwise."""
    space, config = model.pipeline.space, model.network
    if space == portraits.space() and config.channels == 3 and size == config.size:
        record = portraits.sample(count, seed=portraits.EVALUATION_SEED, size=size)
        return record.images, record.attributes
    generator = torch.Generator().manual_seed(0)
    pixels = torch.rand((count, config.channels, size, size), generator=generator) * 2 - 1
    return pixels, random_table(space, count)


def _target(graph: CausalGraph) -> str:
    """Choose an attribute that does not affect all others, if there is one, for two groups."""
    names = graph.nodes
    return next((name for name in names if len(graph.affected({name})) < len(names)), names[0])
