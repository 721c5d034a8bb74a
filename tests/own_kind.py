"""A kind of models defined here: asked and kept without a change to the package."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from fcfg.causal.attributes import AttributeSpace, Table
from fcfg.model import AbstractAbduction, AbstractCounterfactual, CounterfactualModel, Plan
from fcfg.storage import ModelConfig, StoredRecord, register_kind
from fcfg.support.errors import InputError, check_is


class Note(StoredRecord):
    file: ClassVar[str] = "note.json"
    noun: ClassVar[str] = "note"
    text: str


class ShiftConfig(ModelConfig[nn.Linear]):
    records: ClassVar = {"note": Note}

    network: int  #: numbers of an image
    attributes_count: int

    @classmethod
    def describe(cls, image_model: nn.Linear) -> dict[str, Any]:
        inner = image_model.in_features
        return {"network": image_model.out_features, "attributes_count": inner}

    def build(self, space: AttributeSpace, network: nn.Module | None) -> nn.Linear:
        return nn.Linear(self.attributes_count, self.network)


@dataclass(frozen=True, repr=False)
class Shift:
    """Share of the shift that an answer has."""

    share: float = 1.0

    @classmethod
    def parse(cls, text: str) -> Shift:
        head, _, share = text.replace("none", "shift:0").partition(":")
        if head != "shift" or not share:
            expected, do = "'shift:' and a number", "write for example shift:0.5"
            raise InputError(f"setting '{text}'", expected=expected, got=text, do=do)
        return cls(float(share))

    def __repr__(self) -> str:
        return f"shift:{self.share}" if self.share else "none"


@dataclass(frozen=True, eq=False)
class Rest(AbstractAbduction):
    pixels: Tensor  #: what the attributes do not explain


@dataclass(frozen=True, eq=False, repr=False)
class Shifted(AbstractCounterfactual):
    abduction: Rest
    pixels: Tensor

    @property
    def images(self) -> Tensor:
        return self.pixels.clamp(-1, 1)

    @property
    def spent(self) -> Sequence[int]:
        return [2] * len(self.pixels)


@register_kind(ShiftConfig)
class ShiftModel(CounterfactualModel[Rest, Shift, Shifted]):
    """A linear map of the attributes, added to what it does not explain of an image."""

    kind = "shift"
    inferred, setting, heads = Rest, Shift, ("shift",)
    channels, size = 3, 8

    def __init__(self, network, scm, **about: Any) -> None:
        super().__init__(scm, **about)
        self.network, self.note = network, None

    @property
    def image_model(self) -> nn.Module:
        return self.network

    def plan(self, targets, setting=None, *, anchor=None, sampling="default") -> Plan[Shift]:
        setting = Shift() if setting is None else setting
        check_is("setting", setting, Shift, "a Shift", do="call model.parse_setting(text)")
        return Plan(setting, 2, None)

    def infer(self, factual, plan, run) -> Rest:
        rest = factual.images - self._explained(factual.attributes, factual.images)
        return Rest(**vars(factual), pixels=rest)

    def answer(self, abduction, action, plan, run) -> Shifted:
        there, here = (
            self._explained(table, abduction.pixels)
            for table in (action.attributes, abduction.attributes)
        )
        pixels = abduction.pixels + here + plan.setting.share * (there - here)
        return Shifted(abduction, action, plan, pixels)

    def _explained(self, table: Table, images: Tensor) -> Tensor:
        values = torch.from_numpy(self.space.encode(table)).float()
        return self.network(values).detach().view_as(images)
