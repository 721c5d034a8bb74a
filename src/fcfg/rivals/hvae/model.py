"""The hierarchical VAE as a model that answers what-ifs.

The latents of an image are inferred under its own attributes and decoded under counterfactual
ones. What the model does not explain of the image, the residual, is moved along.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from fcfg.causal.attributes import AttributeSpace
from fcfg.causal.scm import StructuralCausalModel
from fcfg.model import (
    AbstractAbduction,
    AbstractCounterfactual,
    Action,
    CounterfactualModel,
    Factual,
    Plan,
    Run,
    Traits,
)
from fcfg.rivals.hvae.config import HVAEConfig
from fcfg.rivals.hvae.likelihood import Images, transfer_residual
from fcfg.rivals.hvae.network import HVAE
from fcfg.sampling import SamplingLike, StepRecord, Trajectory
from fcfg.storage import ModelConfig, register_kind
from fcfg.support.errors import InputError, check_is
from fcfg.support.hashing import stream_seed
from fcfg.support.options import TextForm, check_options, option

_EXAMPLE = "temperature:0.1;residual=0.5"
_ROWS = 2  # one for the inference of the latents, one for the counterfactual


@dataclass(frozen=True, repr=False)
class HVAESetting:
    """How a hierarchical VAE predicts: how much of the posterior and of the residual it keeps.

    The text form is ``none``, or ``temperature:NUMBER`` and an option, ``[;residual=NUMBER]``.

    >>> HVAESetting(temperature=0.1, residual=0.5)
    temperature:0.1;residual=0.5
    >>> HVAESetting.parse("none")
    none

    Args:
        temperature: Factor of the posterior scale from which latents are drawn, 0 to 1; at 0 they
            are the posterior means.
        residual: Share of what the model did not explain of the image, 0 to 1. Only at 1 is an
            image under its own attributes exactly that image.
    """

    temperature: float = option(0.1, "a number from 0 to 1", lambda share: 0 <= share <= 1)
    residual: float = option(1.0, "a number from 0 to 1", lambda share: 0 <= share <= 1)

    def __post_init__(self) -> None:
        check_options(self, "setting,")

    @classmethod
    def parse(cls, text: str) -> HVAESetting:
        """Read the text form."""
        form = TextForm.read(text, "setting", _EXAMPLE)
        if form == TextForm("none", {}, {}):
            return cls(temperature=0.0)
        others = [name for name in form.options if name != "residual"]
        if form.name != "temperature" or [*form.numbers] != [""] or others:
            raise InputError(
                f"setting '{text}'",
                expected="'none', or 'temperature:' and a number, and no option but residual",
                got=repr([*others, form.name][0]),
                do=f"write for example {_EXAMPLE}",
            )
        return cls(form.numbers[""], **form.options)

    def __repr__(self) -> str:
        if self == HVAESetting(temperature=0.0):
            return "none"
        options = {} if self.residual == 1 else {"residual": self.residual}
        return str(TextForm("temperature", {"": self.temperature}, options))


@dataclass(frozen=True, eq=False)
class HVAEAbduction(AbstractAbduction):
    """Images and their attributes; the latents follow from the setting of a prediction."""


@dataclass(frozen=True, eq=False, repr=False)
class HVAECounterfactual(AbstractCounterfactual):
    """Counterfactual images, with everything they were computed from."""

    abduction: HVAEAbduction
    plan: Plan[HVAESetting]
    prediction: Images = field(repr=False)  #: unclamped, on the CPU

    @property
    def images(self) -> Float[Tensor, "batch channel height width"]:
        return self.prediction.clamp(-1, 1)

    @property
    def spent(self) -> Sequence[int]:
        return [_ROWS] * len(self.prediction)


class HVAEModelConfig(ModelConfig[HVAE]):
    """What the folder of a hierarchical VAE holds."""

    network: HVAEConfig

    @classmethod
    def describe(cls, image_model: HVAE) -> dict[str, Any]:
        return {"network": image_model.config}

    def build(self, space: AttributeSpace, network: nn.Module | None) -> HVAE:
        with torch.device("meta"):
            return HVAE(self.network)


@register_kind(HVAEModelConfig)
class HVAEModel(CounterfactualModel[HVAEAbduction, HVAESetting, HVAECounterfactual]):
    """Counterfactual images from a hierarchical VAE and a structural causal model."""

    kind = "hvae"
    traits = Traits(compared={"guidance": ["temperature:0.1", "temperature:0.1;residual=0.1"]})
    inferred, setting, heads = HVAEAbduction, HVAESetting, ("temperature",)

    def __init__(
        self,
        network: HVAE,
        scm: StructuralCausalModel,
        *,
        judge: nn.Module | None = None,
        provenance: Mapping[str, Any] | None = None,
    ) -> None:
        check_is("model, network", network, HVAE, "a fcfg.rivals.hvae.HVAE")
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
        self.channels, self.size = network.config.channels, network.config.size

    def __repr__(self) -> str:
        return f"HVAEModel({self.parameters / 1e6:.1f} M parameters, {self.graph})"

    @property
    def image_model(self) -> HVAE:
        return self.network

    def plan(
        self,
        targets: Collection[str],
        setting: HVAESetting | None = None,
        *,
        anchor: bool | None = None,
        sampling: SamplingLike = "default",
    ) -> Plan[HVAESetting]:
        if anchor is not None:
            raise InputError(
                "anchor",
                expected="none, since this model has no path to anchor",
                got=anchor,
                do="leave it out",
            )
        setting = HVAESetting() if setting is None else setting
        do = "call model.parse_setting(text)"
        check_is("setting", setting, HVAESetting, "a fcfg.rivals.hvae.HVAESetting", do=do)
        return Plan(setting, _ROWS, None, abduction_rows=0)

    def infer(self, factual: Factual, plan: Plan[HVAESetting], run: Run) -> HVAEAbduction:
        return HVAEAbduction(factual.images, factual.attributes, factual.keys)

    @torch.no_grad()
    def answer(
        self, abduction: HVAEAbduction, action: Action, plan: Plan[HVAESetting], run: Run
    ) -> HVAECounterfactual:
        count, pieces = len(abduction.images), list[Tensor]()
        for start in range(0, count, run.batch_size):
            rows = slice(start, start + run.batch_size)
            pieces.append(self._predict(abduction, action, plan.setting, rows))
            run.on_step(StepRecord(0, 1, Trajectory(pieces[-1]), False, start, count))
        return HVAECounterfactual(abduction, action, plan, torch.cat(pieces))

    def _predict(
        self, abduction: HVAEAbduction, action: Action, setting: HVAESetting, rows: slice
    ) -> Images:
        x = self._sent(abduction.images[rows])
        tables = (abduction.attributes, action.attributes)
        factual, counterfactual = (
            self._sent(torch.from_numpy(self.space.encode(table)[rows])) for table in tables
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
        seeds = [stream_seed(seed, "latents", str(key)) for key in keys]
        rows = [torch.randn(total, generator=generator.manual_seed(each)) for each in seeds]
        pieces = torch.stack(rows).split([math.prod(shape) for shape in shapes], dim=1)
        return [piece.view(-1, *shape[1:]) for piece, shape in zip(pieces, shapes, strict=True)]
