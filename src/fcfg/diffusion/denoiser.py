r"""The denoiser :math:`\epsilon_\theta(x_t, t, c)` and its training loss (Sec. 2.1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from typing import TypeAlias

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from fcfg.causal.attributes import Column
from fcfg.diffusion.codec import AbstractCodec
from fcfg.diffusion.embedder import AbstractEmbedder
from fcfg.diffusion.foreign import ForeignNetwork
from fcfg.diffusion.networks import OwnConfig, OwnNetwork, repeat_for_conditions
from fcfg.diffusion.prediction import Condition, Evaluate, Images, Times
from fcfg.diffusion.schedule import NoiseSchedule, prediction_from_output, training_target
from fcfg.diffusion.table import Parameterisation, check_parameterisation
from fcfg.diffusion.times import TrainingTimes
from fcfg.support.errors import InputError, check_integer
from fcfg.support.images import DIMENSIONS, check_pixels, per_image

Conditions: TypeAlias = Float[Tensor, "rows condition"]  # one per image, or several sets of them
Values: TypeAlias = Float[Tensor, "batch values"]  # encoded attributes


@dataclass(frozen=True, eq=False)
class Corruption:
    """Random choices of a training step: times, noise, and the attributes that stay visible."""

    t: Int[Tensor, "batch"]
    noise: Images
    keep: Bool[Tensor, "batch attributes"]
    #: Noise of the semantics, if there are some.
    latent: Float[Tensor, "batch latent"] | None = None


class Denoiser(nn.Module):
    r"""A network, the embedder of its condition and its noise schedule.

    The network can be any module with the call ``network(x, t, c)`` and times 1..T. Time 0 is
    never trained, so a prediction at t = 0 is made, and converted, at t = 1.

    >>> from fcfg.causal.attributes import AttributeSpace, Binary
    >>> from fcfg.diffusion.embedder import AttributeEmbedder
    >>> from fcfg.diffusion.networks import UNet, UNetConfig
    >>> embedder = AttributeEmbedder(AttributeSpace([Binary("smiling")]))
    >>> network = UNet(UNetConfig(size=8, base=8, multipliers=(1, 2), attention=(), condition=32))
    >>> denoiser = Denoiser(network, embedder, NoiseSchedule())
    >>> denoiser(torch.zeros(1, 3, 8, 8), torch.tensor([10]), torch.zeros(1, 32)).shape
    torch.Size([1, 3, 8, 8])

    Args:
        network: Module that predicts from ``(batch, channel, *size)`` images, (batch,) times and
            (batch, K·d) conditions.
        embedder: Embedder that turns attributes into conditions.
        schedule: Noise schedule of the training.
        channels: Number of image channels; by default that of the network.
        stride: Number that must divide every side of an image; by default its own, or 1.
        parameterisation: Quantity the network predicts: 'noise' (as in the paper), 'image' or
            'velocity'; of a flow 'flow', 'reversed-flow' or 'image'. By default that of the
            schedule.
        dimensions: Number of axes of an image beside its channels: 1 for series, 2 for images, 3
            for volumes; by default those of the network, or 2.
        size: Side of the training images; by default that of the network, or unknown.
        codec: Codec whose latents the network works on; channels, stride and size are those of
            images all the same. States are then float64, since decoding enlarges rounding.
    """

    def __init__(
        self,
        network: nn.Module,
        embedder: AbstractEmbedder,
        schedule: NoiseSchedule,
        *,
        channels: int | None = None,
        stride: int | None = None,
        parameterisation: Parameterisation | None = None,
        dimensions: int | None = None,
        size: int | None = None,
        codec: AbstractCodec | None = None,
    ) -> None:
        super().__init__()
        predicted = schedule.parameterisation if parameterisation is None else parameterisation
        check_parameterisation(predicted, is_flow=schedule.is_flow)
        known = network.config if isinstance(network, OwnNetwork) else network
        axes = known.dimensions if isinstance(known, ForeignNetwork) else 2
        dimensions = axes if dimensions is None else dimensions
        if isinstance(known, OwnConfig | ForeignNetwork):
            name, factor = type(network).__name__, 1 if codec is None else codec.factor
            pixels = known.channels if codec is None else codec.channels
            channels, stride = channels or pixels, stride or known.stride * factor
            size = size or (known.size and known.size * factor)
            given = (channels, stride, embedder.condition_width, dimensions)
            expected = (pixels, known.stride * factor, known.condition, axes)
            if given != expected:
                raise InputError(
                    "denoiser (channels, stride, condition width, dimensions)",
                    expected=f"the values of its {name}, {expected}",
                    got=given,
                    do=f"leave all but the condition out, and give the {name} K·32 as its own",
                )
        self.network = network
        self.embedder = embedder
        self.schedule = schedule
        self.channels = check_integer(
            "denoiser, channels", channels, 1, 1000, do="pass the number of image channels"
        )
        self.semantic_width = 0  #: of :meth:`semantics`
        self.stride = check_integer(
            "denoiser, stride", stride or 1, 1, 4096, do="1 allows every image size"
        )
        self.dimensions = check_integer(
            "denoiser, dimensions", dimensions, 1, max(DIMENSIONS), do="2 is for images"
        )
        self.size = size  #: side of the training images; None if it is not known
        self.codec = codec
        self.parameterisation: Parameterisation = predicted
        #: Replaces the network outside training; see :mod:`fcfg.pipeline.runtime`.
        self.evaluate: Evaluate | None = None

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        return self._weight.device

    @property
    def state_dtype(self) -> torch.dtype:
        """Precision of the sampler: float64 of such weights and of latents, otherwise float32."""
        exact = self.codec is not None or self._weight.dtype == torch.float64
        return torch.float64 if exact else torch.float32

    def state_shape(self, size: tuple[int, ...]) -> tuple[int, ...]:
        """Return channels and sides of the states of images of a size."""
        if self.codec is None:
            return (self.channels, *size)
        return (self.codec.latent_channels, *(side // self.codec.factor for side in size))

    def over(self, codec: AbstractCodec) -> Denoiser:
        """Return the denoiser of images whose latents this one works on."""
        made, predicted = (self.network, self.embedder, self.schedule), self.parameterisation
        return Denoiser(*made, parameterisation=predicted, codec=codec)

    def encoded(self, images: Images) -> Float[Tensor, "batch states *sides"]:
        """Return images as states, at time 0: themselves, or their latents; on the device."""
        x = images.to(self.device, self.state_dtype)
        return x if self.codec is None else self.codec.encode(x)

    @property
    def _weight(self) -> Tensor:
        """A weight of the embedder or, if it has none, of the network."""
        weights = chain(self.embedder.parameters(), self.network.parameters())
        return next(weights, torch.empty(0, device="cpu"))

    def semantics(self, images: Images) -> Float[Tensor, "batch latent"]:
        """Return what images contribute to their conditions: nothing, in most models."""
        return images.new_zeros(len(images), 0)

    def condition(
        self,
        table: Mapping[str, Column],
        semantics: Float[Tensor, "batch latent"] | None = None,
    ) -> Condition:
        """Embed parsed attributes, and semantics if there are any, where the weights are."""
        if semantics is None and self.semantic_width:
            raise InputError(
                "condition",
                expected="the semantics of the images beside their attributes",
                got="attributes alone",
                do="pass semantics=denoiser.semantics(images)",
            )
        values = torch.from_numpy(self.embedder.space.encode(table))
        weight = self._weight
        c = self.embedder(values.to(weight.device, weight.dtype)).to(self.state_dtype)
        return c if semantics is None else torch.cat([semantics.to(c), c], dim=1)

    def output(self, x: Images, t: Times, c: Conditions) -> Float[Tensor, "rows channel *size"]:
        """Evaluate the network in its own precision; the output has the precision of ``x``."""
        weight = next(self.network.parameters(), x)
        evaluate = self.network if self.training else self.evaluate or self.network
        if not isinstance(self.network, OwnNetwork):
            x, t = repeat_for_conditions(x, c), repeat_for_conditions(t, c)
        output = evaluate(x.to(weight.dtype), self.schedule.called(t), c.to(weight.dtype))
        shape = (len(c), *x.shape[1:])
        if output.shape != shape:
            raise InputError(
                "network",
                expected=f"an output of the shape of its input, {shape}",
                got=tuple(output.shape),
                do="return one number for each pixel and channel",
            )
        return output.to(x.dtype)

    def forward(self, x: Images, t: Times, c: Conditions) -> Float[Tensor, "rows channel *size"]:
        r"""Predict the noise :math:`\epsilon_\theta(x_t, t, c)`, or the flow of a flow.

        Conditions are one per image, or several sets of them, one after the other.
        """
        t = t.clamp(min=1)
        output = self.output(x, t, c)
        if self.parameterisation in ("noise", "flow"):
            return output
        x, t = repeat_for_conditions(x, c), repeat_for_conditions(t, c)
        levels, flow = self._levels(t, x), self.schedule.is_flow
        return prediction_from_output(output, x, *levels, self.parameterisation, flow=flow)

    def noise(self, x: Images, t: Times, c: Conditions) -> Float[Tensor, "rows channel *size"]:
        """Predict the noise, also of a flow, for measurements; arguments as in a call."""
        prediction = self(x, t, c)
        if not self.schedule.is_flow:
            return prediction
        x, t = repeat_for_conditions(x, c), repeat_for_conditions(t, c)
        return x + self._levels(t.clamp(min=1), x)[0] * prediction

    def _levels(self, t: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        signal, noise = self.schedule.signal(t), self.schedule.noise(t)
        return per_image(signal.to(x.dtype), x), per_image(noise.to(x.dtype), x)

    def draw(
        self,
        shape: tuple[int, ...],
        generator: torch.Generator,
        *,
        p_null: float = 0.5,
        p_group: float = 0.0,
        times: TrainingTimes | None = None,
    ) -> Corruption:
        r"""Draw the random choices of a training step, on the device of the generator.

        Args:
            shape: Shape of the batch of images.
            generator: Source of all randomness.
            p_null: Probability :math:`p_\varnothing` of dropping the whole condition.
            p_group: Probability of dropping each attribute of a condition that was not dropped as
                a whole. The paper uses 0.
            times: Frequency of each time; equal by default.
        """
        for name, p in {"p_null": p_null, "p_group": p_group}.items():
            if not 0 <= p <= 1:
                expected, do = "a probability from 0 to 1", "the paper has 0.5 and 0"
                raise InputError(name, expected=expected, got=p, do=do)
        if p_group:
            self.embedder.check_separate("p_group")
        (batch, *_), device = shape, generator.device
        t = (times or TrainingTimes()).draw(batch, self.schedule.steps, generator)
        noise = torch.randn(shape, generator=generator, device=device)
        size = (batch, 1 + len(self.embedder.space))
        uniform = torch.rand(size, generator=generator, device=device)
        keep = (uniform[:, 1:] >= p_group) & (uniform[:, :1] >= p_null)
        if not self.semantic_width:
            return Corruption(t, noise, keep)
        size = (batch, self.semantic_width)
        latent = torch.randn(size, generator=generator, device=device)
        return Corruption(t, noise, keep, latent)

    def draw_groups(
        self, batch: int, generator: torch.Generator
    ) -> Bool[Tensor, "batch 2 attributes"]:
        """Draw two disjoint groups of attributes for each image, for :meth:`interaction`.

        Two attributes begin them. Each other attribute joins the first group, the second, or
        neither, with equal probability, so all pairs of groups occur.
        """
        shape, device = (batch, len(self.embedder.space)), generator.device
        group = torch.randint(0, 3, shape, generator=generator, device=device)
        order = torch.rand(shape, generator=generator, device=device).argsort(dim=1)
        group.scatter_(1, order[:, :2], torch.arange(2, device=device).expand(batch, 2))
        return torch.stack([group == 0, group == 1], dim=1)

    def loss(self, images: Images, values: Values, corruption: Corruption) -> Float[Tensor, ""]:
        r"""Compute the training loss (Sec. 2.1), averaged over the batch and the pixels.

        .. math:: \lVert \epsilon - \epsilon_\theta(x_t, t, c) \rVert^2

        The values are encoded attributes, the corruption is that of :meth:`draw`. A model of
        latents gets :meth:`encoded` images.
        """
        check_pixels(images)
        c = self.embedder.masked(self._embedded(values), corruption.keep)
        return functional.mse_loss(*self._output_and_target(images, c, corruption))

    def _output_and_target(
        self, images: Tensor, c: Tensor, corruption: Corruption
    ) -> tuple[Tensor, Tensor]:
        signal, noise = self._levels(corruption.t, images)
        x_t = signal * images + noise * corruption.noise
        target = training_target(images, corruption.noise, signal, noise, self.parameterisation)
        return self.output(x_t, corruption.t, c), target

    def interaction(
        self,
        images: Images,
        values: Values,
        corruption: Corruption,
        groups: Bool[Tensor, "batch 2 attributes"],
    ) -> Float[Tensor, ""]:
        r"""Compute how far two groups of attributes are from adding up (CoInD, ICLR 2025).

        .. math:: \lVert \epsilon_\theta(x_t, t, c^{(a \cup b)}) - \epsilon_\theta(x_t, t, c^{(a)})
            - \epsilon_\theta(x_t, t, c^{(b)}) + \epsilon_\theta(x_t, t, \varnothing) \rVert^2

        It is averaged like :meth:`loss`, in the units of what the network predicts, and 0 for all
        groups if and only if the differences of single attributes add up to those of any set.

        The groups are those of :meth:`draw_groups`; what the corruption drops does not matter.
        """
        a, b = groups.unbind(dim=1)
        c = self._embedded(values)
        conditions = [self.embedder.masked(c, keep) for keep in (a | b, a, b, torch.zeros_like(a))]
        outputs, _ = self._output_and_target(images, torch.cat(conditions), corruption)
        joint, first, second, null = outputs.chunk(4)
        return (joint - first - second + null).square().mean()

    def _embedded(self, values: Tensor) -> Tensor:
        return self.embedder(values.to(self._weight.dtype))
