"""Worlds small enough that every noise prediction is known in closed form.

They are written as networks with the call of any other, so that the whole package runs on them.
"""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import Tensor, nn

from fcfg import AttributeEmbedder, CausalGraph, Denoiser, Guidance, StructuralCausalModel
from fcfg.causal import AttributeSpace, Binary
from fcfg.diffusion import AbstractPredictor, Images, NoiseSchedule, Prediction, State, Step
from fcfg.pipeline.counterfactual import Counterfactual, CounterfactualPipeline
from fcfg.sampling import SOLVERS
from place import DEVICE

SHAPE = (1, 4, 4)  # of an image
INVERTIBLE = [name for name, solver in SOLVERS.items() if not solver.draws_noise]
_TWO = {"affected": 3.0, "invariant": 1.2}
RULES = [  # global and factored
    *(Guidance.cfg(3.0), Guidance.fcfg(**_TWO)),
    *(Guidance.cfgpp(0.02), Guidance.fcfgpp(affected=0.02, invariant=0.008)),
    *(Guidance.apg(3.0), Guidance.fapg(**_TWO)),
]
ANY_RULE = [Guidance.none(), *RULES, Guidance.contrast(1.5)]
ANY_RULE += [Guidance.parse("fcontrast:smiling=2,male=1.5,young=1")]


class MixtureNetwork(nn.Module):
    """Exact noise predictions of x | a ~ N(mean(a), spread²), a binary with any prior.

    The condition is read back from its blocks: zeros are a masked attribute, over which the
    mixture is summed by its prior.
    """

    def __init__(self, means: Tensor, prior: Tensor, spread: float, schedule: NoiseSchedule):
        super().__init__()
        self.means, self.prior, self.spread = means, prior, spread  # (2^K, C, H, W), (2^K,)
        self.schedule = schedule
        self.rows = 0  # evaluated so far
        count = len(means).bit_length() - 1
        self.values = torch.tensor(list(itertools.product([0, 1], repeat=count)))

    def levels(self, t: Tensor) -> tuple[Tensor, Tensor]:
        """Signal and noise at the times that the network is called with."""
        assert bool(((t >= 1) & (t <= self.schedule.steps)).all())
        return self.schedule.signal(t), self.schedule.noise(t)

    def output(self, image: Tensor, eps: Tensor) -> Tensor:
        """What is predicted of a clean image and its noise."""
        return eps

    def forward(self, x: Tensor, t: Tensor, c: Tensor) -> Tensor:
        self.rows += len(x)
        values, means, prior = (v.to(x.device) for v in (self.values, self.means, self.prior))
        signal, noise = (v.to(x.dtype).view(-1, 1, 1, 1, 1) for v in self.levels(t))
        blocks = c.unflatten(1, (values.shape[1], -1))
        visible, value = blocks[..., 0] != 0, blocks[..., 1] > 0.5
        fits = (~visible[:, None] | (values[None] == value[:, None])).all(dim=2)  # (batch, 2^K)
        variance = signal**2 * self.spread**2 + noise**2
        means = means[None].to(x.dtype)
        distance = x[:, None] - signal * means  # (batch, 2^K, C, H, W)
        exponent = -(distance**2 / (2 * variance)).sum(dim=(2, 3, 4)) + prior.log().to(x.dtype)
        weight = exponent.masked_fill(~fits, -torch.inf).softmax(dim=1)[..., None, None, None]
        image = means + signal * self.spread**2 * distance / variance
        return (weight * self.output(image, noise * distance / variance)).sum(dim=1)


class FlowMixture(MixtureNetwork):
    """The same world as a flow, called with T·σ."""

    def levels(self, t: Tensor) -> tuple[Tensor, Tensor]:
        noise = t.double() / self.schedule.steps
        return 1 - noise, noise

    def output(self, image: Tensor, eps: Tensor) -> Tensor:
        return eps - image


class Gaussian(AbstractPredictor):
    """Exact noise of x ~ N(mean, spread²): the flow between image and noise is known."""

    mean, spread = 0.3, 0.4

    def __init__(self, schedule: NoiseSchedule):
        self.schedule = schedule

    def init(self, x: Images) -> State:
        return ()

    def predict(self, x: Images, step: Step, state: State) -> tuple[Prediction, State]:
        # At t = 0 as at t = 1, the way every denoiser is asked.
        t = step.t.clamp(min=1)
        signal, noise = self.schedule.signal(t), self.schedule.noise(t)
        scaled = (x - signal * self.mean) / (signal**2 * self.spread**2 + noise**2)
        eps, image = noise * scaled, self.mean + signal * self.spread**2 * scaled
        found = eps - image if step.flow else eps
        return Prediction(clean=found, renoise=found), state

    def exact(self, x: Tensor, t: int, s: int) -> Tensor:
        """Where the probability flow leads: standard scores are kept."""
        (a_t, a_s), (n_t, n_s) = (
            f(torch.tensor([t, s])) for f in (self.schedule.signal, self.schedule.noise)
        )
        scale = [(a**2 * self.spread**2 + n**2).sqrt() for a, n in ((a_t, n_t), (a_s, n_s))]
        return a_s * self.mean + (x - a_t * self.mean) * scale[1] / scale[0]


def images() -> Tensor:
    """Images of the Gaussian world."""
    generator = torch.Generator().manual_seed(0)
    x = 0.3 + 0.4 * torch.randn(8, 1, 2, 2, generator=generator, dtype=torch.float64)
    return x.to(DEVICE)


class AdditiveNetwork(nn.Module):
    """A noise prediction that is a sum over attributes: the one case where FCFG at equal
    weights is CFG."""  # noqa: D205, D209

    def __init__(self, directions: Tensor):
        super().__init__()
        self.directions = directions  # (K, C, H, W)

    def forward(self, x: Tensor, t: Tensor, c: Tensor) -> Tensor:
        blocks = c.unflatten(1, (len(self.directions), -1))
        pull = (blocks[..., 1, None, None, None] * self.directions.to(x)).sum(dim=1)
        return 0.1 * x + torch.sin(t.to(x.dtype) / 300).view(-1, 1, 1, 1) * pull


def readable_embedder(space: AttributeSpace) -> AttributeEmbedder:
    """An embedder whose blocks say (1, value, 0, ...): visible, and what it is."""
    embedder = AttributeEmbedder(space, width=4).double()
    for branch in embedder.branches:
        for parameter in branch.parameters():
            nn.init.zeros_(parameter)
        first, _, second = branch
        one = torch.nn.functional.silu(torch.ones((), dtype=torch.float64))
        first.weight.data[1] = 1.0
        second.weight.data[1, 1] = 1 / one
        second.bias.data[0] = 1.0
    return embedder.requires_grad_(False)


def binary_space(count: int = 3) -> AttributeSpace:
    return AttributeSpace([Binary(name) for name in ("smiling", "male", "young")[:count]])


def roots(space: AttributeSpace) -> CausalGraph:
    return CausalGraph({name: [] for name in space.names})


def mixture_pipeline(
    *,
    steps: int = 1000,
    kind: str = "linear",
    spread: float = 0.5,
    count: int = 3,
    shift: float = 1.0,
) -> CounterfactualPipeline:
    """A pipeline over the mixture world, in float64, with correlated attributes and means that
    are *not* additive."""  # noqa: D205, D209
    generator = torch.Generator().manual_seed(0)
    schedule = NoiseSchedule(kind, steps, shift)
    means = 0.4 * torch.randn(2**count, *SHAPE, generator=generator, dtype=torch.float64)
    prior = torch.rand(2**count, generator=generator, dtype=torch.float64) + 0.2
    network = FlowMixture if schedule.is_flow else MixtureNetwork
    return pipeline_of(network(means, prior / prior.sum(), spread, schedule), schedule, count)


def pipeline_of(network: nn.Module, schedule: NoiseSchedule, count: int) -> CounterfactualPipeline:
    space = binary_space(count)
    denoiser = Denoiser(network, readable_embedder(space), schedule, channels=SHAPE[0])
    return CounterfactualPipeline(denoiser, StructuralCausalModel(space, roots(space))).to(DEVICE)


def mixture_faces(pipeline: CounterfactualPipeline, n: int, seed: int = 1) -> tuple[Tensor, dict]:
    """Draw images and attributes from the mixture world."""
    network, generator = pipeline.denoiser.network, torch.Generator().manual_seed(seed)
    which = torch.multinomial(network.prior, n, replacement=True, generator=generator)
    noise = torch.randn(n, *SHAPE, generator=generator, dtype=torch.float64)
    images = (network.means[which] + network.spread * noise).clamp(-1, 1)
    names = pipeline.space.names
    return images, {name: network.values[which, i].numpy() for i, name in enumerate(names)}


def ask(
    pipeline: CounterfactualPipeline, n: int = 4, **options: Any
) -> tuple[Tensor, Counterfactual]:
    """Faces of the mixture world, and answers about them: by default, each smile is another."""
    faces, attributes = mixture_faces(pipeline, n)
    question = {"do": {"smiling": "flip"}} | options
    return faces, pipeline.counterfactual(faces, attributes, **question)


def walk(
    pipeline: CounterfactualPipeline, faces: Tensor, table: dict, rule: Guidance, **options: Any
) -> tuple[Counterfactual, list[Tensor]]:
    """An anchored answer to the factual attributes, and its states.

    All steps are taken: the pipeline would return the images, since nothing changes.
    """
    abduction, states = pipeline.abduct(faces, table, **options), list[Tensor]()
    action = pipeline.act(table, {"male": table["male"]}, keys=abduction.keys)
    rule = rule.replace(anchor=True, drawn_noise=options.get("drawn_noise", False))
    told: Any = {"on_step": lambda record: states.append(record.trajectory.x)}
    return pipeline.predict(abduction, action, rule, **told), states


def mixture(n: int, **options: Any) -> tuple[CounterfactualPipeline, Tensor, dict]:
    """A pipeline over the mixture world, with images and attributes of it."""
    pipeline = mixture_pipeline(**options)
    return pipeline, *mixture_faces(pipeline, n)


def independent_pipeline(spread: float = 0.35) -> CounterfactualPipeline:
    """A mixture world whose attributes are independent given any image: FCFG's assumption.

    Attributes shift the mean along orthogonal directions and have independent priors.
    """
    schedule, space = NoiseSchedule(), binary_space()
    pixels = torch.arange(16, dtype=torch.float64)
    waves = [torch.cos(torch.pi * (pixels + 0.5) * k / 16) for k in (1, 2, 3)]
    values = torch.tensor(list(itertools.product([-1.0, 1.0], repeat=3)), dtype=torch.float64)
    means = 0.15 * torch.einsum("ak,kp->ap", values, torch.stack(waves)).view(-1, *SHAPE)
    prior = torch.full((8,), 1 / 8, dtype=torch.float64)
    return pipeline_of(MixtureNetwork(means, prior, spread, schedule), schedule, len(space))
