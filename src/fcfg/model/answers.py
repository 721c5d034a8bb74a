"""Questions and answers: plans, actions, abductions, and counterfactual images."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, Self, TypeAlias, TypedDict, TypeVar

from jaxtyping import Float
from torch import Tensor

from fcfg.causal.attributes import AttributeSpace, Table
from fcfg.causal.intervention import Intervention
from fcfg.causal.scm import Keys
from fcfg.sampling import OnStep, SamplingConfig
from fcfg.sheet import figure
from fcfg.support.errors import check_is
from fcfg.support.images import by_size

SettingT = TypeVar("SettingT")
#: Keys of a way back: those of the way there, a digest of the pixels that go back, or own ones.
BackKeys: TypeAlias = Keys | Literal["same"] | None


@dataclass(frozen=True, eq=False)
class Action:
    """Attributes under an intervention."""

    attributes: Table = field(repr=False)  #: counterfactual
    targets: tuple[str, ...]  #: the attributes intervened on
    seed: int  #: for sampling discrete exogenous noise


def check_do(space: AttributeSpace, do: Mapping[str, Intervention]) -> None:
    """Refuse an intervention on what is no attribute."""
    check_is("do", do, Mapping, "a mapping from names to values")
    space.check_known(do, "intervention")


class Work(TypedDict, total=False):
    """How much is computed at once, and who hears of it."""

    batch_size: int  #: largest number of network rows per call, 256 by default; bounds the memory
    on_step: OnStep | None  #: callback invoked after every step, with the share that is done
    progress: bool  #: whether to show a bar if it takes seconds, without ``on_step``; it is shown


class Options(Work, total=False):
    """How images are read beside that."""

    #: Name or number of each image, from which its random numbers follow; by default a digest of
    #: its pixels, so that an answer depends on the image alone.
    keys: Keys | None
    any_size: bool  #: whether to accept images of another size than the model was trained at
    resize: bool  #: whether to make pictures fit as in training, like ``fcfg generate``


class Preparation(TypedDict, total=False):
    """How a network computes, beside its precision; by default not compiled, and with graphs."""

    compile: bool  #: whether to compile it, which takes a while at the first call
    batch_size: int  #: largest compiled batch; use the number of images per call to avoid padding
    cuda_graphs: bool  #: whether to replay steps as CUDA graphs, with few images on a GPU


@dataclass(frozen=True)
class Traits:
    """What the answers of a kind of models have; by default none of it."""

    steps: bool = False  #: images are sampled in steps, so a plan has a sampling
    groups: bool = False  #: groups of attributes can have weights of their own
    any_size: bool = False  #: images may have another size than those of training
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


@dataclass(frozen=True)
class Run:
    """How an abduction or a prediction is computed."""

    batch_size: int  #: largest number of network rows per call
    on_step: OnStep  #: callback invoked after every step


@dataclass(frozen=True, eq=False)
class Factual:
    """Images and their attributes, read and checked."""

    images: Float[Tensor, "batch channel *size"] = field(repr=False)  #: on the CPU
    attributes: Table = field(repr=False)
    keys: Keys = field(repr=False)  #: name of each image, combined with the seed


@dataclass(frozen=True, eq=False)
class AbstractAbduction(Factual):
    """Images and attributes, with what a model inferred from them; reusable for many questions."""

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
        (count, _, *size), spent = self.images.shape, f"{self.evaluations:g} network rows"
        images = f"{count} {'image' if count == 1 else 'images'} of {by_size(size)}"
        return f"{type(self).__name__}({images}, do({', '.join(self.action.targets)}), {spent})"

    def _repr_html_(self) -> str | None:
        """Show the first images in a notebook."""
        if self.images.shape[1] not in (1, 3):
            return None
        rows = {"factual": self.abduction.images, "counterfactual": self.images}
        return figure(rows, repr(self))

    @property
    @abstractmethod
    def images(self) -> Float[Tensor, "batch channel *size"]:
        """Counterfactual images, clamped to [-1, 1]."""

    @property
    @abstractmethod
    def spent(self) -> Sequence[int]:
        """Network rows of each image, abduction included."""

    @property
    def round_trip(self) -> Float[Tensor, "batch"] | None:
        """What a codec loses of the factual images (RMS over pixels); None without a codec."""
        return None

    @property
    def attributes(self) -> Table:
        """Counterfactual attributes."""
        return self.action.attributes

    @property
    def evaluations(self) -> int | float:
        """Network rows per image, abduction included; the mean where images differ."""
        spent = self.spent
        return spent[0] if len(set(spent)) == 1 else sum(spent) / len(spent)
