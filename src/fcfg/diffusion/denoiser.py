r"""The denoiser :math:`\epsilon_\theta(x_t, t, c)`, its training loss, and what it predicts.

Guidance and sampling never meet: guidance turns evaluations of a :class:`Denoiser` into a
:class:`Prediction` at a :class:`Step`, and a solver turns predictions into images. Both sides
of that contract are here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias, get_args

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from fcfg.causal.attributes import Column
from fcfg.causal.graph import Partition
from fcfg.diffusion.embedder import AttributeEmbedder
from fcfg.diffusion.networks import UNet, under_all
from fcfg.diffusion.schedule import (
    NoiseSchedule,
    Parameterisation,
    noise_from_output,
    training_target,
)
from fcfg.support.errors import InputError, check_among, check_integer

Images: TypeAlias = Float[Tensor, "batch channel height width"]
State: TypeAlias = tuple[Tensor, ...]
Rows: TypeAlias = int | Int[Tensor, "batch"]  # a number for every image, where they differ
Evaluate: TypeAlias = Callable[[Tensor, Tensor, Tensor], Tensor]  # the call of a network


@dataclass(frozen=True, eq=False)
class Step:
    """One step of a plan, from time t to time s; every number is a tensor on the device."""

    t: Int[Tensor, ""]
    s: Int[Tensor, ""]
    signal_t: Float[Tensor, ""]
    noise_t: Float[Tensor, ""]
    signal_s: Float[Tensor, ""]
    noise_s: Float[Tensor, ""]
    weights: Float[Tensor, "groups"]  #: of the guidance; empty where there is none
    guided: bool  #: false outside the start and stop of the guidance
    ascending: bool  #: from image to noise, an inversion
    first: bool = False  #: of its run
    last: bool = False  #: of its run
    at_image: bool = False  #: it begins or ends at t = 0, where there is no noise

    def reversed(self) -> Step:
        """The step from s to t."""
        return replace(
            self,
            t=self.s,
            s=self.t,
            signal_t=self.signal_s,
            noise_t=self.noise_s,
            signal_s=self.signal_t,
            noise_s=self.noise_t,
            ascending=not self.ascending,
        )


@dataclass(frozen=True, eq=False)
class Prediction:
    """The two noises of a step: for the clean estimate, and for adding noise again.

    They are one and the same except for CFG++, which renoises with the unconditional one.
    """

    clean: Images
    renoise: Images
    rows: Rows = 1  #: network rows that it took for each image

    def merged(self, step: Step) -> Images:
        r"""The one noise that gives the same DDIM step.

        .. math::
            \frac{\sqrt{1 - \alpha_s}\, \epsilon_\text{renoise} - k\, \epsilon_\text{clean}}
            {\sqrt{1 - \alpha_s} - k},
            \qquad k = \sqrt{\alpha_s}\, \sqrt{1 - \alpha_t} / \sqrt{\alpha_t}

        For CFG++ it is exactly CFG with a weight that depends on the time.
        """
        if self.renoise is self.clean:
            return self.clean
        k = step.signal_s * step.noise_t / step.signal_t
        return (step.noise_s * self.renoise - k * self.clean) / (step.noise_s - k)


@dataclass(frozen=True, eq=False)
class Corruption:
    """What training draws for a batch: times, noise, and which attributes stay visible."""

    t: Int[Tensor, "batch"]
    noise: Images
    keep: Bool[Tensor, "batch attributes"]


class Denoiser(nn.Module):
    r"""A network, the embedder of its condition and its noise schedule.

    Any module called as ``network(x, t, c)`` will do, with t in 1..T: t = 0 is never trained,
    so a question at t = 0 is asked, and converted, at t = 1.

    >>> from fcfg.causal.attributes import AttributeSpace, Binary
    >>> from fcfg.diffusion.networks import UNetConfig
    >>> embedder = AttributeEmbedder(AttributeSpace([Binary("smiling")]))
    >>> network = UNet(UNetConfig(size=8, base=8, multipliers=(1, 2), attention=(), condition=32))
    >>> denoiser = Denoiser(network, embedder, NoiseSchedule())
    >>> denoiser(torch.zeros(1, 3, 8, 8), torch.tensor([10]), torch.zeros(1, 32)).shape
    torch.Size([1, 3, 8, 8])

    Args:
        network: Predicts from (batch, channel, height, width) images, (batch,) times and
            (batch, K·d) conditions.
        embedder: Makes conditions of attributes.
        schedule: Its noise levels.
        channels: Of the images; a :class:`fcfg.diffusion.networks.UNet` knows.
        stride: What their height and width must be divisible by; a UNet knows, 1 otherwise.
        parameterisation: What the network predicts: 'noise' (the paper), 'image', 'velocity'.
    """

    def __init__(
        self,
        network: nn.Module,
        embedder: AttributeEmbedder,
        schedule: NoiseSchedule,
        *,
        channels: int | None = None,
        stride: int | None = None,
        parameterisation: Parameterisation = "noise",
    ) -> None:
        super().__init__()
        check_among("parameterisation", parameterisation, get_args(Parameterisation))
        if isinstance(network, UNet):
            known = network.config
            channels, stride = channels or known.channels, stride or known.stride
            told = (channels, stride, embedder.condition_width)
            if told != (known.channels, known.stride, known.condition):
                raise InputError(
                    "denoiser (channels, stride, condition width)",
                    expected=f"what its UNet has, {known.channels, known.stride, known.condition}",
                    got=told,
                    do="leave channels and stride out, and give the UNet K·32 as its condition",
                )
        self.network = network
        self.embedder = embedder
        self.schedule = schedule
        self.channels = check_integer(
            "denoiser, channels", channels, 1, 1000, do="say how many the images have"
        )
        self.stride = check_integer("denoiser, stride", stride or 1, 1, 4096, do="1 is no demand")
        self.parameterisation: Parameterisation = parameterisation
        #: Asked instead of the network, except in training; see :mod:`fcfg.pipeline.runtime`.
        self.evaluate: Evaluate | None = None

    @property
    def size(self) -> int | None:
        """Height and width of the images a UNet was made for; None for another network."""
        return self.network.config.size if isinstance(self.network, UNet) else None

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.embedder.parameters()).device

    @property
    def state_dtype(self) -> torch.dtype:
        """Precision of the sampler, float32 whatever the network's, but float64 for float64."""
        embedder = next(self.embedder.parameters()).dtype
        return torch.float64 if embedder == torch.float64 else torch.float32

    def condition(self, table: Mapping[str, Column]) -> Float[Tensor, "batch condition"]:
        """Embed parsed attributes, on the device of the weights."""
        values = torch.from_numpy(self.embedder.space.encode(table))
        weight = next(self.embedder.parameters())
        return self.embedder(values.to(weight.device, weight.dtype)).to(self.state_dtype)

    def output(
        self, x: Images, t: Int[Tensor, "batch"], c: Float[Tensor, "rows condition"]
    ) -> Float[Tensor, "rows channel height width"]:
        """Evaluate the network in its own precision and return that of ``x``."""
        weight = next(self.network.parameters(), x)
        asked = self.network if self.training else self.evaluate or self.network
        if not isinstance(self.network, UNet):
            x, t = under_all(x, c), under_all(t, c)
        output = asked(x.to(weight.dtype), t, c.to(weight.dtype))
        shape = (len(c), *x.shape[1:])
        if output.shape != shape:
            raise InputError(
                "network",
                expected=f"an output of the shape of its input, {shape}",
                got=tuple(output.shape),
                do="return one number for each pixel and channel",
            )
        return output.to(x.dtype)

    def forward(
        self, x: Images, t: Int[Tensor, "batch"], c: Float[Tensor, "rows condition"]
    ) -> Float[Tensor, "rows channel height width"]:
        r"""Noise prediction :math:`\epsilon_\theta(x_t, t, c)`.

        Args:
            x: Noisy images.
            t: Their times.
            c: A condition for each; or several, all images under the first of them first.
        """
        t = t.clamp(min=1)
        output = self.output(x, t, c)
        if self.parameterisation == "noise":
            return output
        x, t = under_all(x, c), under_all(t, c)
        return noise_from_output(output, x, *self._levels(t, x), self.parameterisation)

    def _levels(self, t: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        shape = (-1, 1, 1, 1)
        signal, noise = self.schedule.signal(t), self.schedule.noise(t)
        return signal.to(x.dtype).view(shape), noise.to(x.dtype).view(shape)

    def draw(
        self,
        shape: tuple[int, int, int, int],
        generator: torch.Generator,
        *,
        p_null: float = 0.5,
        p_group: float = 0.0,
        groups: Partition | None = None,
    ) -> Corruption:
        r"""Draw what a training step needs, on the device of the generator.

        Args:
            shape: Of the batch of images.
            generator: Source of all randomness.
            p_null: Probability :math:`p_\varnothing` of dropping the whole condition.
            p_group: Probability of dropping each group, where the whole was not dropped. The
                paper has 0 and leaves others open.
            groups: What ``p_group`` drops together; single attributes by default.
        """
        for name, p in {"p_null": p_null, "p_group": p_group}.items():
            if not 0 <= p <= 1:
                raise InputError(
                    name, expected="a probability, 0 to 1", got=p, do="the paper has 0.5 and 0"
                )
        space = self.embedder.space
        if groups is None:
            groups = Partition({name: [name] for name in space.names})
        groups.check_covers(space.names)
        device, batch = generator.device, shape[0]
        t = torch.randint(1, self.schedule.steps + 1, (batch,), generator=generator, device=device)
        noise = torch.randn(shape, generator=generator, device=device)
        uniform = torch.rand((batch, 1 + len(groups)), generator=generator, device=device)
        member = torch.tensor(groups.mask(space.names), device=device)  # (groups, attributes)
        dropped = ((uniform[:, 1:, None] < p_group) & member).any(dim=1)
        keep = ~dropped & (uniform[:, :1] >= p_null)
        return Corruption(t=t, noise=noise, keep=keep)

    def loss(
        self, images: Images, values: Float[Tensor, "batch values"], corruption: Corruption
    ) -> Float[Tensor, ""]:
        r"""Training loss (Sec. 2.1), averaged over the batch and the pixels.

        .. math:: \lVert \epsilon - \epsilon_\theta(x_t, t, c) \rVert^2

        Args:
            images: Clean, in [-1, 1].
            values: What :meth:`fcfg.causal.attributes.AttributeSpace.encode` gave.
            corruption: What :meth:`draw` gave.
        """
        if not images.is_floating_point():
            raise InputError(
                "images",
                expected="floating-point pixels in [-1, 1]",
                got=f"dtype {images.dtype}",
                do="convert bytes with x / 127.5 - 1",
            )
        signal, noise = self._levels(corruption.t, images)
        x_t = signal * images + noise * corruption.noise
        weight = next(self.embedder.parameters())
        c = self.embedder.masked(self.embedder(values.to(weight.dtype)), corruption.keep)
        target = training_target(images, corruption.noise, signal, noise, self.parameterisation)
        return functional.mse_loss(self.output(x_t, corruption.t, c), target)


class AbstractPredictor(ABC):
    """Says what a solver asks at a step. What evolves is in the state, nothing in the object."""

    #: All tensors that it holds beside the denoiser, one row for each row of the network.
    conditions: State = ()
    #: Equal where two of a denoiser differ in their conditions alone, and do the same whatever
    #: the numbers are, so that a step of one can be replayed for the other. None: it cannot.
    kind: Hashable = None

    @abstractmethod
    def init(self, x: Images) -> State:
        """State before the first step of a trajectory: tensors whose shapes never change."""

    @abstractmethod
    def predict(self, x: Images, step: Step, state: State) -> tuple[Prediction, State]:
        """Predict at (x, step.t); the state comes back new."""


class ConditionalPredictor(AbstractPredictor):
    """The plain conditional model: abduction (Algorithm 1), and the paper's ω = 1.

    Args:
        denoiser: The model.
        condition: (batch, K·d), of the images that will be asked about.
    """

    def __init__(self, denoiser: Denoiser, condition: Float[Tensor, "batch condition"]) -> None:
        self.denoiser = denoiser
        self.conditions = (condition,)
        self.kind = ConditionalPredictor

    def init(self, x: Images) -> State:
        """No state."""
        return ()

    def predict(self, x: Images, step: Step, state: State) -> tuple[Prediction, State]:
        """One evaluation under the whole condition."""
        eps = self.denoiser(x, step.t.expand(len(x)), *self.conditions)
        return Prediction(clean=eps, renoise=eps), state
