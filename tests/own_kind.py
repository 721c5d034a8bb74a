"""A kind of models defined here, and kept in folders without a change to the package."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from fcfg.causal.attributes import AttributeSpace, Table
from fcfg.model import (
    AbstractAbduction,
    AbstractCounterfactual,
    CounterfactualModel,
    Plan,
)
from fcfg.storage import ModelConfig, StoredRecord, register_kind
from fcfg.support.images import image_keys


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
class Rest(AbstractAbduction):
    pixels: Tensor  #: what the attributes do not explain


@dataclass(frozen=True, eq=False)
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
class ShiftModel(CounterfactualModel[Rest, str, Shifted]):
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

    def plan(self, targets, setting=None, **options: Any) -> Plan[str]:
        return Plan(setting or "plain", 2, None)

    def abduct(self, images, attributes, *, plan=None, keys=None, **options: Any) -> Rest:
        table = self.space.parse(attributes)
        keys = image_keys(images) if keys is None else keys
        return Rest(images, table, keys, images - self._explained(table, images))

    def predict(self, abduction, action, plan=None, **options: Any) -> Shifted:
        plan = plan if isinstance(plan, Plan) else self.plan(action.targets, plan)
        pixels = abduction.pixels + self._explained(action.attributes, abduction.pixels)
        return Shifted(abduction, action, plan, pixels)

    def _explained(self, table: Table, images: Tensor) -> Tensor:
        values = torch.from_numpy(self.space.encode(table)).float()
        return self.network(values).detach().view_as(images)
