"""Questions and answers: plans, actions, abductions, and counterfactual images."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, Self, TypeAlias, TypeVar

import numpy as np
from jaxtyping import Float
from torch import Tensor

from fcfg.causal.attributes import AttributeSpace, Table
from fcfg.causal.intervention import Intervention
from fcfg.causal.scm import Keys, checked_keys
from fcfg.sampling import SamplingConfig
from fcfg.sheet import figure
from fcfg.support.errors import InputError, check_is
from fcfg.support.images import image_keys

SettingT = TypeVar("SettingT")
#: Keys of a way back: those of the way there, a digest of the pixels that go back, or own ones.
BackKeys: TypeAlias = Keys | Literal["same"] | None


@dataclass(frozen=True, eq=False)
class Action:
    """Attributes under an intervention."""

    attributes: Table = field(repr=False)  #: counterfactual
    targets: tuple[str, ...]  #: the attributes intervened on
    seed: int  #: for sampling discrete exogenous noise


def check_action(action: Action, factual: Table, kept: Collection[str]) -> None:
    """Refuse an action on other images than those of an abduction."""
    count, own = (len(next(iter(table.values()))) for table in (action.attributes, factual))
    if count != own or not all(
        np.array_equal(action.attributes[name], factual[name]) for name in kept
    ):
        raise InputError(
            "action",
            expected=f"attributes for the {own} images of the abduction",
            got=f"{count} other ones",
            do="make both from the same images",
        )


def check_do(space: AttributeSpace, do: Mapping[str, Intervention]) -> None:
    """Refuse an intervention on what is no attribute."""
    check_is("do", do, Mapping, "a mapping from names to values")
    space.check_known(do, "intervention")


def keys_back(keys: BackKeys, there: Keys, images: Tensor) -> Keys:
    """Return the keys of a way back."""
    if isinstance(keys, str) and keys == "same":
        return there
    keys = image_keys(images) if keys is None else keys
    checked_keys(keys, len(images))
    return keys


@dataclass(frozen=True)
class Traits:
    """What the answers of a kind of models have; by default none of it."""

    steps: bool = False  #: images are sampled in steps, so a plan has a sampling
    groups: bool = False  #: groups of attributes can have weights of their own
    trust: bool = False  #: signals of trust can be measured: the image model is a denoiser
    compared: Mapping[str, Any] | None = field(default_factory=lambda: {"guidance": []})
    """Fields of an experiment that compares the default with other settings; None where these are
    the rules that all models with groups are compared by."""


@dataclass(frozen=True, eq=False)
class Plan(Generic[SettingT]):
    """How a model answers a question, with all defaults filled in."""

    setting: SettingT
    rows: int  #: network rows of one image in one call of a prediction
    abduction: Hashable
    """What the abduction must be; plans for which it is equal share the abduction of an image."""
    sampling: SamplingConfig | None = None  #: solver, grid and steps, if images are sampled
    groups: Mapping[str, Collection[str]] = field(default_factory=dict[str, Collection[str]])
    """Groups of attributes with a weight of their own, if there are any."""
    abduction_rows: int = 1  #: network rows of one image in one call of the abduction
    kept_as: str = ""
    """All that an abduction on disk depends on, beside model and image; empty if it is cheap."""

    def __str__(self) -> str:
        parts = (self.setting, self.sampling)
        return ", ".join(str(part) for part in parts if part is not None)

    def shared(self) -> Self:
        """Return the plan with an abduction that other plans share; a hook for costly ones."""
        return self

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON values."""
        sampling = {} if self.sampling is None else self.sampling.to_json()
        groups = {group: sorted(names) for group, names in self.groups.items()}
        return {"guidance": repr(self.setting), "groups": groups, **sampling}


@dataclass(frozen=True, eq=False)
class AbstractAbduction:
    """Images and attributes, with what a model inferred from them; reusable for many questions."""

    images: Float[Tensor, "batch channel height width"] = field(repr=False)  #: on the CPU
    attributes: Table = field(repr=False)  #: factual
    keys: Keys = field(repr=False)  #: name of each image, combined with the seed

    @property
    def inferred(self) -> dict[str, Tensor]:
        """What was inferred, one row for each image, see :meth:`CounterfactualModel.restore`."""
        return {}


@dataclass(frozen=True, eq=False, repr=False)
class AbstractCounterfactual(ABC):
    """Counterfactual images, with what they were computed from."""

    abduction: AbstractAbduction
    action: Action
    plan: Plan[Any]

    def __repr__(self) -> str:
        (count, _, height, width), spent = self.images.shape, f"{self.evaluations:g} network rows"
        images = f"{count} {'image' if count == 1 else 'images'} of {height} by {width}"
        return f"{type(self).__name__}({images}, do({', '.join(self.action.targets)}), {spent})"

    def _repr_html_(self) -> str | None:
        """Show the first images in a notebook."""
        if self.images.shape[1] not in (1, 3):
            return None
        rows = {"factual": self.factual_images, "counterfactual": self.images}
        return figure(rows, repr(self))

    @property
    def factual_images(self) -> Float[Tensor, "batch channel height width"]:
        """Factual images."""
        return self.abduction.images

    @property
    @abstractmethod
    def images(self) -> Float[Tensor, "batch channel height width"]:
        """Counterfactual images, clamped to [-1, 1]."""

    @property
    @abstractmethod
    def spent(self) -> Sequence[int]:
        """Network rows of each image, abduction included."""

    @property
    def attributes(self) -> Table:
        """Counterfactual attributes."""
        return self.action.attributes

    @property
    def evaluations(self) -> int | float:
        """Network rows per image, abduction included; the mean where images differ."""
        spent = self.spent
        return spent[0] if len(set(spent)) == 1 else sum(spent) / len(spent)
