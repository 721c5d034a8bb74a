"""A kind of models defined here, and kept in folders without a change to the package."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from fcfg.causal.attributes import AttributeSpace, Table
from fcfg.model import AbstractCounterfactual, Action, CounterfactualModel, Method
from fcfg.storage import ModelConfig, StoredRecord, register_kind


class Note(StoredRecord):
    file: ClassVar[str] = "note.json"
    noun: ClassVar[str] = "note"
    text: str


class ShiftConfig(ModelConfig[nn.Linear]):
    records: ClassVar = {"note": Note}

    network: int  #: pixels of an image
    attributes_count: int

    @classmethod
    def describe(cls, image_model: nn.Linear) -> dict[str, Any]:
        inner = image_model.in_features
        return {"network": image_model.out_features, "attributes_count": inner}

    def build(self, space: AttributeSpace, network: nn.Module | None) -> nn.Linear:
        return nn.Linear(self.attributes_count, self.network)


@dataclass(frozen=True, eq=False)
class Shifted(AbstractCounterfactual):
    pixels: Tensor
    factual: tuple[Tensor, Table]
    action: Action

    @property
    def images(self) -> Tensor:
        return self.pixels.clamp(-1, 1)

    @property
    def spent(self) -> Sequence[int]:
        return [2] * len(self.pixels)


@register_kind(shift=ShiftConfig)
class ShiftModel(CounterfactualModel[tuple[Tensor, Table], str, Shifted]):
    """A linear map of the attributes, added to what it does not explain of an image."""

    kind = "shift"
    channels, size = 1, None

    def __init__(self, network, scm, **about: Any) -> None:
        super().__init__(scm, **about)
        self.network, self.note = network, None

    @property
    def image_model(self) -> nn.Module:
        return self.network

    def parse_setting(self, text) -> str:
        return text

    def method(self, targets, setting=None, **options: Any) -> Method[str]:
        return Method(setting or "plain", 2)

    def counterfactual(self, images, attributes, do, *, seed=0, **options: Any) -> Shifted:
        return self.predict(self.abduct(images, attributes), self.act(attributes, do, seed=seed))

    def abduct(self, images, attributes, **options: Any) -> tuple[Tensor, Table]:
        table = self.space.parse(attributes)
        return images - self._explained(table, images), table

    def predict(self, abduction, action, setting=None, **options: Any) -> Shifted:
        rest, _ = abduction
        return Shifted(rest + self._explained(action.attributes, rest), abduction, action)

    def reverse(self, pair, **options: Any) -> Shifted:
        back = replace(pair.action, attributes=pair.factual[1])
        return self.predict(self.abduct(pair.images, pair.attributes), back)

    def _explained(self, table: Table, images: Tensor) -> Tensor:
        values = torch.from_numpy(self.space.encode(table)).float()
        return self.network(values).detach().view_as(images)
