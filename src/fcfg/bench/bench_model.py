"""What is measured: a model, and the question that every contestant answers."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from fcfg.bench.hardware import row_flops
from fcfg.causal.attributes import AttributeSpace, Categorical, Column, Continuous, Table
from fcfg.causal.graph import CausalGraph, Partition
from fcfg.causal.scm import StructuralCausalModel
from fcfg.datasets import portraits
from fcfg.diffusion.networks import UNet, UNetConfig
from fcfg.guidance import Guidance
from fcfg.pipeline.checkpoint import load
from fcfg.pipeline.counterfactual import DEFAULT_GUIDANCE, CounterfactualPipeline
from fcfg.support.errors import check_among
from fcfg.training import presets, read_config
from fcfg.training.workspace import new_denoiser


@dataclass(frozen=True, eq=False)
class Subject:
    """A model, which stays on the CPU, and the device that copies of it are measured on."""

    name: str
    pipeline: CounterfactualPipeline
    device: torch.device

    @property
    def network(self) -> UNetConfig:
        """The shape of its network."""
        network = self.pipeline.denoiser.network
        assert isinstance(network, UNet)  # all that can be loaded by name, or made of a preset
        return network.config

    def fresh(self) -> CounterfactualPipeline:
        """A copy on the device, to be changed at will."""
        denoiser = copy.deepcopy(self.pipeline.denoiser).eval()
        return CounterfactualPipeline(denoiser, self.pipeline.scm).to(self.device)

    def flops(self, size: int | None = None) -> int:
        """Operations of one network row, at the size it was made for or another."""
        return row_flops(self.network, size or self.network.size)

    def question(
        self, images: int, steps: int, *, groups: int | None = None, size: int | None = None
    ) -> Question:
        """Ask for counterfactuals of some images.

        Args:
            images: How many.
            steps: From image to noise, and back.
            groups: By default those of the intervention, affected and invariant; or so many.
            size: Of the images; the network's by default.
        """
        side, space = size or self.network.size, self.pipeline.space
        pictures, attributes = _drawn(self, images, side)
        target = _target(self.pipeline.graph)
        guidance, partition = DEFAULT_GUIDANCE, None
        if groups is not None:
            partition = _parts(space.names, groups)
            guidance = Guidance.fcfg(**dict.fromkeys(partition, 1.5))
        return Question(
            self,
            pictures,
            attributes,
            {target: attributes[target][::-1].copy()},
            guidance,
            partition,
            steps,
        )


@dataclass(frozen=True, eq=False)
class Question:
    """The same images, intervention, guidance and steps for everybody."""

    subject: Subject
    images: Float[Tensor, "batch channel height width"] = field(repr=False)
    attributes: Table = field(repr=False)
    do: Mapping[str, Column] = field(repr=False)
    guidance: Guidance
    partition: Partition | None
    steps: int

    @property
    def named(self) -> Partition:
        """The groups that the guidance names; one may be empty."""
        return self.guidance.partition(self.subject.pipeline.graph, self.do, self.partition)

    @property
    def groups(self) -> Partition:
        """Those that are evaluated: empty ones are not."""
        return Partition({name: members for name, members in self.named.groups.items() if members})

    @property
    def rows_at_once(self) -> int:
        """Network rows of one guided step of all images."""
        return len(self.images) * (len(self.groups) + 1)

    @property
    def evaluations(self) -> int:
        """Network rows in all: one a step for the abduction, M + 1 for the prediction."""
        return len(self.images) * self.steps * (len(self.groups) + 2)


def stored_subject(name: str, device: torch.device) -> Subject:
    """A shipped model, or one in a folder.

    Args:
        name: Of either.
        device: Where it is measured.
    """
    return Subject(Path(name).name, load(name), device)


def preset_subject(name: str, device: torch.device) -> Subject:
    """The network of a training preset with random weights, and a graph without arrows.

    Args:
        name: Of the preset.
        device: Where it is measured.
    """
    check_among("--preset", name, presets())
    config = read_config(name)
    denoiser = new_denoiser(config)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        wake(denoiser.network)
    graph = CausalGraph({attribute: [] for attribute in config.space.names})
    scm = StructuralCausalModel(config.space, graph)
    return Subject(name, CounterfactualPipeline(denoiser, scm), device)


def random_table(space: AttributeSpace, count: int, seed: int = 0) -> Table:
    """Legal values of every attribute.

    >>> from fcfg.causal.attributes import Binary
    >>> random_table(AttributeSpace([Binary("smiling")]), 4)
    {'smiling': array([1, 1, 1, 0])}

    Args:
        space: The attributes.
        count: How many of each.
        seed: Of the draw.
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


def _drawn(subject: Subject, count: int, size: int) -> tuple[Tensor, Table]:
    """Drawings for a model of the drawn world at its own size, else random pixels."""
    space, shape = subject.pipeline.space, subject.network
    if space == portraits.space() and shape.channels == 3 and size == shape.size:
        record = portraits.sample(count, seed=portraits.EVALUATION_SEED, size=size)
        return record.images, record.attributes
    generator = torch.Generator().manual_seed(0)
    pixels = torch.rand((count, shape.channels, size, size), generator=generator) * 2 - 1
    return pixels, random_table(space, count)


def _target(graph: CausalGraph) -> str:
    """An attribute whose change leaves others alone, where there is one: two groups."""
    names = graph.nodes
    return next((name for name in names if len(graph.affected({name})) < len(names)), names[0])


def _parts(names: tuple[str, ...], count: int) -> Partition:
    """The first attributes alone, the others together."""
    rest = names[count - 1 :]
    groups = [[name] for name in names[: count - 1]] + [list(rest)]
    return Partition({f"group{number}": group for number, group in enumerate(groups, 1)})


def wake(network: nn.Module) -> None:
    """Give layers that begin at zero the weights that torch gives to others.

    The last one gets a hundredth of them: from pure noise a DDIM step magnifies what the network
    says 156 times, and images should stay images.
    """
    asleep = [
        module
        for module in network.modules()
        if isinstance(module, nn.Conv2d) and not module.weight.any()
    ]
    for module in asleep:
        module.reset_parameters()
    for parameter in asleep[-1].parameters():
        parameter.data *= 0.01
