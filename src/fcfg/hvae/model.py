"""The hierarchical VAE as a model that answers what-ifs.

The latents of an image are inferred under its own attributes and decoded under counterfactual
ones. What the model does not explain of the image, the residual, is moved along.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from fcfg.causal.attributes import AttributeSpace, Table
from fcfg.causal.intervention import Intervention
from fcfg.causal.scm import Keys, StructuralCausalModel, checked_keys
from fcfg.hvae.config import HVAEConfig
from fcfg.hvae.likelihood import Images, transfer_residual
from fcfg.hvae.network import HVAE
from fcfg.hvae.setting import HVAESetting
from fcfg.model import (
    AbstractCounterfactual,
    Action,
    AttributesLike,
    BackKeys,
    CounterfactualModel,
    Method,
    check_action,
    check_do,
    keys_back,
)
from fcfg.model.inputs import read_factual
from fcfg.sampling import OnStep, SamplingLike, StepRecord, Trajectory
from fcfg.storage import ModelConfig, register_kind
from fcfg.support.errors import InputError, check_integer, check_is, together
from fcfg.support.hashing import stream_seed
from fcfg.support.images import ImagesLike, image_keys
from fcfg.support.progress import steps_shown

_ROWS = 2  # one for the inference of the latents, one for the counterfactual


@dataclass(frozen=True, eq=False)
class HVAEAbduction:
    """Images and their attributes; the latents follow from the setting of a prediction."""

    images: Images = field(repr=False)  #: on the CPU
    attributes: Table = field(repr=False)  #: factual
    keys: Keys = field(repr=False)  #: name of each image, combined with the seed


@dataclass(frozen=True, eq=False, repr=False)
class HVAECounterfactual(AbstractCounterfactual):
    """Counterfactual images, with everything they were computed from."""

    prediction: Images = field(repr=False)  #: unclamped, on the CPU
    abduction: HVAEAbduction
    action: Action
    setting: HVAESetting

    @property
    def images(self) -> Float[Tensor, "batch channel height width"]:
        """Counterfactual images, clamped to [-1, 1]."""
        return self.prediction.clamp(-1, 1)

    @property
    def factual_images(self) -> Float[Tensor, "batch channel height width"]:
        """Factual images."""
        return self.abduction.images

    @property
    def spent(self) -> Sequence[int]:
        """Network rows of each image: one inference, and one decoding."""
        return [_ROWS] * len(self.prediction)


class HVAEModelConfig(ModelConfig[HVAE]):
    """What the folder of a hierarchical VAE holds."""

    network: HVAEConfig

    @classmethod
    def describe(cls, image_model: HVAE) -> dict[str, Any]:
        """Return the shape of the network."""
        return {"network": image_model.config}

    def build(self, space: AttributeSpace, network: nn.Module | None) -> HVAE:
        """Return the network, without weights."""
        with torch.device("meta"):
            return HVAE(self.network)


@register_kind(hvae=HVAEModelConfig)
class HVAEModel(CounterfactualModel[HVAEAbduction, HVAESetting, HVAECounterfactual]):
    """Counterfactual images from a hierarchical VAE and a structural causal model.

    Args:
        network: Image model.
        scm: Attribute model.
        judge: Classifier that reads attributes from images.
        provenance: JSON values that describe how the model was made.
    """

    kind = "hvae"

    def __init__(
        self,
        network: HVAE,
        scm: StructuralCausalModel,
        *,
        judge: nn.Module | None = None,
        provenance: Mapping[str, Any] | None = None,
    ) -> None:
        check_is("model, network", network, HVAE, "a fcfg.hvae.HVAE")
        super().__init__(scm, judge=judge, provenance=provenance)
        wanted = sum(scm.space.widths)
        if network.config.parents != wanted:
            raise InputError(
                "model, network",
                expected=f"{wanted} parents, for the attributes {list(scm.space.names)}",
                got=network.config.parents,
                do="build it with that many",
            )
        self.network = network

    def __repr__(self) -> str:
        return f"HVAEModel({self.parameters / 1e6:.1f} M parameters, {self.graph})"

    @property
    def image_model(self) -> HVAE:
        """The network."""
        return self.network

    @property
    def channels(self) -> int:
        """Number of image channels."""
        return self.network.config.channels

    @property
    def size(self) -> int:
        """Height and width of the images."""
        return self.network.config.size

    def parse_setting(self, text: str) -> HVAESetting:
        """Read a temperature and the share of the residual."""
        return HVAESetting.parse(text)

    def method(
        self,
        targets: Collection[str],
        setting: HVAESetting | None = None,
        *,
        anchor: bool | None = None,
        sampling: SamplingLike = "default",
    ) -> Method[HVAESetting]:
        """Return how a question is answered: with one inference, and one decoding.

        Args:
            targets: Attributes intervened on, of no effect.
            setting: Temperature of the latents, and share of the residual.
            anchor: None; other values are refused, since a VAE has no path to anchor.
            sampling: Solver, grid and steps, of no effect, since there are no steps.
        """
        if anchor is not None:
            raise InputError(
                "anchor",
                expected="none, since this model has no path to anchor",
                got=anchor,
                do="leave it out",
            )
        return Method(HVAESetting() if setting is None else setting, _ROWS)

    def counterfactual(  # pyright: ignore[reportIncompatibleMethodOverride] # no further options
        self,
        images: ImagesLike,
        attributes: AttributesLike,
        do: Mapping[str, Intervention],
        *,
        setting: HVAESetting | None = None,
        seed: int = 0,
        keys: Keys | None = None,
        any_size: bool = False,
        resize: bool = False,
        batch_size: int = 256,
        on_step: OnStep | None = None,
        progress: bool = True,
    ) -> HVAECounterfactual:
        """What would these images look like had the attributes been different?

        Args:
            images: Floats in [-1, 1], or pictures, paths or bytes, see :mod:`fcfg.support.images`.
            attributes: Columns by name, a data frame, rows, or 'auto': the judge reads them.
            do: For every target a value, a column, a function of the factual column, or a string
                such as 'flip' or '+10%', see :mod:`fcfg.causal.intervention`.
            setting: Temperature of the latents, and share of the residual.
            seed: Seed for sampling latents and discrete exogenous noise.
            keys: Name or number of each image, combined with the seed; by default a digest of its
                pixels, so that an answer depends on the image alone.
            any_size: No effect: the network has one size.
            resize: Whether to make pictures fit as in training, like ``fcfg generate``.
            batch_size: Largest number of network rows per call; bounds the memory.
            on_step: Callback invoked after every batch, with the share that is done.
            progress: Whether to show a bar if it takes seconds, without ``on_step``.
        """
        abduction, _ = together(
            lambda: self.abduct(images, attributes, keys=keys, resize=resize),
            lambda: check_do(self.space, do),
        )
        action = self.act(abduction.attributes, do, seed=seed, keys=abduction.keys)
        return self.predict(
            abduction, action, setting, batch_size=batch_size, on_step=on_step, progress=progress
        )

    def abduct(  # pyright: ignore[reportIncompatibleMethodOverride] # no further options
        self,
        images: ImagesLike,
        attributes: AttributesLike,
        *,
        keys: Keys | None = None,
        any_size: bool = False,
        resize: bool = False,
        batch_size: int = 256,
        on_step: OnStep | None = None,
        progress: bool = True,
    ) -> HVAEAbduction:
        """Read images and attributes. A prediction infers the latents, at its temperature.

        Args:
            images: Images, as in :meth:`counterfactual`; so are the other arguments.
            attributes: Factual attributes.
            keys: Name or number of each image; a digest of its pixels by default.
            any_size: No effect: the network has one size.
            resize: Whether to make pictures fit as in training, like ``fcfg generate``.
            batch_size: No effect, since no network is evaluated.
            on_step: No effect, since there are no steps.
            progress: No effect.
        """
        x, table = read_factual(self, images, attributes, resize=resize)
        keys = image_keys(x) if keys is None else keys
        checked_keys(keys, len(x))
        return HVAEAbduction(x, table, keys)

    @torch.no_grad()
    def predict(
        self,
        abduction: HVAEAbduction,
        action: Action,
        setting: HVAESetting | None = None,
        /,
        *,
        batch_size: int = 256,
        on_step: OnStep | None = None,
        progress: bool = True,
    ) -> HVAECounterfactual:
        """Infer latents under factual attributes, and decode them under counterfactual ones.

        Args:
            abduction: Result of :meth:`abduct`, which can be reused for every question.
            action: Result of :meth:`act`; its seed and the keys of the images determine the noise
                of the latents.
            setting: Temperature of the latents, and share of the residual.
            batch_size: Largest number of network rows per call.
            on_step: Callback invoked after every batch.
            progress: Whether to show a bar.
        """
        check_is("abduction", abduction, HVAEAbduction, "the result of model.abduct")
        check_is("action", action, Action, "the result of model.act")
        setting = HVAESetting() if setting is None else setting
        do = "call model.parse_setting(text)"
        check_is("setting", setting, HVAESetting, "a fcfg.hvae.HVAESetting", do=do)
        check_integer("batch_size", batch_size, 1, 10**9, do="256 is the default")
        kept = set(self.space.names) - self.graph.affected(action.targets)
        check_action(action, abduction.attributes, kept)
        count, pieces = len(abduction.images), list[Tensor]()
        with steps_shown(on_step, progress, 0, 1) as report:
            for start in range(0, count, batch_size):
                rows = slice(start, start + batch_size)
                pieces.append(self._predict(abduction, action, setting, rows))
                report(StepRecord(0, 1, Trajectory(pieces[-1]), False, start, count))
        return HVAECounterfactual(torch.cat(pieces), abduction, action, setting)

    def reverse(
        self,
        pair: HVAECounterfactual,
        *,
        keys: BackKeys = "same",
        batch_size: int = 256,
        on_step: OnStep | None = None,
        progress: bool = True,
    ) -> HVAECounterfactual:
        """Go back to the factual attributes, from the clamped images, with the same setting.

        Args:
            pair: Result of :meth:`counterfactual` or :meth:`predict`.
            keys: Names of the images, 'same' as on the way there, or None for a digest of the
                pixels that go back.
            batch_size: Largest number of network rows per call.
            on_step: Callback invoked after every batch.
            progress: Whether to show a bar.
        """
        check_is("pair", pair, HVAECounterfactual, "the result of model.counterfactual")
        there = pair.abduction
        keys = keys_back(keys, there.keys, pair.images)
        abduction = HVAEAbduction(pair.images, pair.attributes, keys)
        back = replace(pair.action, attributes=there.attributes)
        return self.predict(
            abduction,
            back,
            pair.setting,
            batch_size=batch_size,
            on_step=on_step,
            progress=progress,
        )

    def _predict(
        self, abduction: HVAEAbduction, action: Action, setting: HVAESetting, rows: slice
    ) -> Images:
        """Predict some of the images."""
        x = self._sent(abduction.images[rows])
        factual, counterfactual = (
            self._sent(
                torch.from_numpy(
                    self.space.encode({name: column[rows] for name, column in table.items()})
                )
            )
            for table in (abduction.attributes, action.attributes)
        )
        noise = None
        if setting.temperature > 0:
            drawn = self._noise(action.seed, list(abduction.keys)[rows])
            noise = [setting.temperature * self._sent(tensor) for tensor in drawn]
        inference = self.network.infer(x, factual, noise)
        pixels = self.network.decode(inference.latents, counterfactual)
        return transfer_residual(x, inference.pixels, pixels, setting.residual).cpu()

    def _sent(self, tensor: Tensor) -> Tensor:
        """Return a tensor on the device and in the precision of the network."""
        return tensor.to(self.device, next(self.network.parameters()).dtype)

    def _noise(self, seed: int, keys: Sequence[int | str]) -> list[Tensor]:
        """Draw the noise of the latents, that of each image from its key."""
        shapes = self.network.noise_shapes(1)
        total = sum(map(math.prod, shapes))
        generator = torch.Generator()
        rows = [
            torch.randn(
                total, generator=generator.manual_seed(stream_seed(seed, "latents", str(key)))
            )
            for key in keys
        ]
        pieces = torch.stack(rows).split([math.prod(shape) for shape in shapes], dim=1)
        return [piece.view(-1, *shape[1:]) for piece, shape in zip(pieces, shapes, strict=True)]
