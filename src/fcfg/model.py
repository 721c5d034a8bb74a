"""What a model that answers what-ifs offers, whatever its images are made by.

Abduction infers what an image has beside its attributes, action turns an intervention into
counterfactual attributes, prediction makes the image. Evaluation asks a model by this contract;
the diffusion pipeline and the hierarchical VAE are two such models. A class of your own is one,
too; to save and load its models, register its kind with :func:`fcfg.storage.register_kind`.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Literal, Self, TypeAlias, TypeVar

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import ArrayLike
from torch import Tensor, nn

from fcfg.causal.attributes import AttributeSpace, Table
from fcfg.causal.graph import CausalGraph
from fcfg.causal.intervention import Intervention
from fcfg.causal.scm import Keys, StructuralCausalModel, checked_keys
from fcfg.sampling import OnStep, SamplingConfig, SamplingLike
from fcfg.storage import Storage, load_model, read_words, save_model
from fcfg.support.errors import InputError, check_is
from fcfg.support.images import ImagesLike, image_keys

#: Keys of a way back: those of the way there, a digest of the pixels that go back, or own ones.
BackKeys: TypeAlias = Keys | Literal["same"] | None


@dataclass(frozen=True, eq=False)
class Action:
    """Attributes under an intervention."""

    attributes: Table = field(repr=False)  #: counterfactual
    targets: tuple[str, ...]  #: the attributes intervened on
    seed: int  #: for sampling discrete exogenous noise


def check_action(action: Action, factual: Table, kept: Collection[str]) -> None:
    """Refuse an action on other images than those of an abduction.

    Args:
        action: The action.
        factual: Attributes of the images of the abduction.
        kept: Attributes that the action does not change.
    """
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


def keys_back(keys: BackKeys, there: Keys, images: Tensor) -> Keys:
    """Return the keys of a way back.

    Args:
        keys: Keys that were asked for.
        there: Keys of the way there.
        images: Images that go back.
    """
    if isinstance(keys, str) and keys == "same":
        return there
    keys = image_keys(images) if keys is None else keys
    checked_keys(keys, len(images))
    return keys


class AbstractCounterfactual(ABC):
    """Counterfactual images, with what they were computed from."""

    action: Action

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


AbductionT = TypeVar("AbductionT")
SettingT = TypeVar("SettingT")
AnswerT = TypeVar("AnswerT", bound=AbstractCounterfactual)


@dataclass(frozen=True, eq=False)
class Method(Generic[SettingT]):
    """How a model answers a question, with all defaults filled in."""

    setting: SettingT
    rows: int  #: network rows of one image in one call of a prediction
    sampling: SamplingConfig | None = None  #: solver, grid and steps, if images are sampled
    groups: Mapping[str, Collection[str]] = field(default_factory=dict[str, Collection[str]])
    """Groups of attributes with a weight of their own, if there are any."""
    abduction: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Further arguments that :meth:`CounterfactualModel.abduct` needs for such answers."""

    def __str__(self) -> str:
        parts = (self.setting, self.sampling)
        return ", ".join(str(part) for part in parts if part is not None)

    def to_json(self) -> dict[str, Any]:
        """Return the method as JSON values."""
        sampling = {} if self.sampling is None else self.sampling.to_json()
        groups = {group: sorted(names) for group, names in self.groups.items()}
        return {"guidance": repr(self.setting), "groups": groups, **sampling}


def check_do(space: AttributeSpace, do: Mapping[str, Intervention]) -> None:
    """Refuse an intervention on what is no attribute.

    Args:
        space: The attributes.
        do: Intervention, as in :meth:`CounterfactualModel.act`.
    """
    check_is("do", do, Mapping, "a mapping from names to values")
    space.check_known(do, "intervention")


class CounterfactualModel(ABC, Generic[AbductionT, SettingT, AnswerT]):
    """A model of images and their attributes that answers what-ifs.

    A *setting* is what a user chooses about an answer: a guidance, or a temperature. Its text form
    names it in result files and on the command line; :meth:`parse_setting` reads it, and ``repr``
    writes it.

    Args:
        scm: Attribute model.
        judge: Classifier that reads attributes from images.
        provenance: JSON values that describe how the model was made.
    """

    kind: str  #: such as 'diffusion', 'semantic' (SA-DCG) or 'hvae', in files and reports

    def __init__(
        self,
        scm: StructuralCausalModel,
        *,
        judge: nn.Module | None = None,
        provenance: Mapping[str, Any] | None = None,
    ) -> None:
        check_is("model, scm", scm, StructuralCausalModel, "a fcfg.StructuralCausalModel")
        self.scm = scm
        self.judge = judge
        self.provenance = dict(provenance or {})
        self.folder: Path | None = None  #: folder that :meth:`load` read

    @property
    @abstractmethod
    def image_model(self) -> nn.Module:
        """Everything that is trained to make images."""

    @property
    @abstractmethod
    def channels(self) -> int:
        """Number of image channels."""

    @property
    @abstractmethod
    def size(self) -> int | None:
        """Height and width of the training images; None if the model does not know it."""

    @abstractmethod
    def parse_setting(self, text: str) -> SettingT:
        """Read the text form of a setting; refuse one that this model does not have."""

    @abstractmethod
    def method(
        self,
        targets: Collection[str],
        setting: SettingT | None = None,
        *,
        anchor: bool | None = None,
        sampling: SamplingLike = "default",
    ) -> Method[SettingT]:
        """Return how a question is answered; defaults are those of the model.

        Args:
            targets: Attributes intervened on.
            setting: The setting, if given.
            anchor: Whether to anchor, where the model can; by default as the setting says.
            sampling: Solver, grid and steps; of no effect where nothing is sampled.
        """

    @abstractmethod
    def counterfactual(
        self,
        images: ImagesLike,
        attributes: Mapping[str, ArrayLike],
        do: Mapping[str, Intervention],
        *,
        seed: int = 0,
        keys: Keys | None = None,
        any_size: bool = False,
        batch_size: int = 256,
        on_step: OnStep | None = None,
        **options: Any,
    ) -> AnswerT:
        """What would these images look like had the attributes been different?

        Args:
            images: Images, as in :meth:`abduct`.
            attributes: Column of factual values for every attribute.
            do: Intervention, as in :meth:`act`.
            seed: Seed for sampling discrete exogenous noise.
            keys: Name or number of each image; a digest of its pixels by default.
            any_size: Whether to accept images of another size than the model was trained at.
            batch_size: Largest number of network rows per call.
            on_step: Callback invoked after every step.
            **options: ``guidance`` and ``sampling`` of a diffusion pipeline, or the ``setting`` of
                another model.
        """

    @abstractmethod
    def abduct(
        self,
        images: ImagesLike,
        attributes: Mapping[str, ArrayLike],
        *,
        keys: Keys | None = None,
        any_size: bool = False,
        batch_size: int = 256,
        on_step: OnStep | None = None,
        **options: Any,
    ) -> AbductionT:
        """Infer what images have beside their attributes.

        Args:
            images: Float tensor or array in [-1, 1], (batch, channel, height, width), or PIL
                pictures.
            attributes: Column of factual values for every attribute.
            keys: Name or number of each image, from which its random numbers follow; by default a
                digest of its pixels.
            any_size: Whether to accept images of another size than the model was trained at.
            batch_size: Largest number of network rows per call; bounds the memory.
            on_step: Callback invoked after every step, with the share that is done.
            **options: Arguments that some kinds of answers need, see :attr:`Method.abduction`.
        """

    @abstractmethod
    def predict(
        self,
        abduction: AbductionT,
        action: Action,
        setting: SettingT | None = None,
        /,
        *,
        batch_size: int = 256,
        on_step: OnStep | None = None,
    ) -> AnswerT:
        """Make images of an abduction under counterfactual attributes.

        Args:
            abduction: Result of :meth:`abduct`, which can be reused for every question.
            action: Result of :meth:`act`.
            setting: The setting; by default that of the model.
            batch_size: Largest number of network rows per call.
            on_step: Callback invoked after every step.
        """

    @abstractmethod
    def reverse(
        self,
        pair: AnswerT,
        *,
        keys: BackKeys = "same",
        batch_size: int = 256,
        on_step: OnStep | None = None,
    ) -> AnswerT:
        """Go back to the factual attributes, from the clamped images, with the same setting.

        By default, random numbers are those of the way there. They follow from the keys of the
        factual images, which a recipient of the answers does not have; ``None`` draws them anew.

        Args:
            pair: Result of :meth:`predict`.
            keys: Names of the images, 'same' as on the way there, or None for a digest of the
                pixels that go back.
            batch_size: Largest number of network rows per call.
            on_step: Callback invoked after every step.
        """

    @property
    def space(self) -> AttributeSpace:
        """The attributes."""
        return self.scm.space

    @property
    def graph(self) -> CausalGraph:
        """The causal graph of the attributes."""
        return self.scm.graph

    @property
    def words(self) -> dict[str, list[str]]:
        """Words for no and yes of binary attributes, if the model brings its own."""
        return {} if self.folder is None else read_words(self.folder, self.space)

    @property
    def device(self) -> torch.device:
        """Device of the image model."""
        return next(self.image_model.parameters()).device

    @property
    def parameters(self) -> int:
        """Number of trained parameters of the image model."""
        return sum(parameter.numel() for parameter in self.image_model.parameters())

    def to(self, device: torch.device | str) -> Self:
        """Move the networks; the causal model stays on the CPU."""
        self.image_model.to(device)
        if self.judge is not None:
            self.judge.to(device)
        return self

    def prepare(
        self,
        precision: str = "auto",
        *,
        compile: bool = False,
        batch_size: int = 256,
        cuda_graphs: bool = True,
    ) -> Self:
        """Choose how the network computes, where the model offers a choice.

        Args:
            precision: 'float32', 'tf32', 'bf16' or 'auto'.
            compile: Whether to compile the network.
            batch_size: Largest compiled batch.
            cuda_graphs: Whether to replay steps as CUDA graphs.
        """
        return self

    def act(
        self,
        attributes: Mapping[str, ArrayLike],
        do: Mapping[str, Intervention],
        *,
        seed: int = 0,
        keys: Keys | None = None,
    ) -> Action:
        """Turn an intervention into counterfactual attributes (Algorithm 2).

        Args:
            attributes: Factual attributes.
            do: For every target a value, a column, a function of the factual column, or a string
                such as 'flip' or '+10%', see :mod:`fcfg.causal.intervention`.
            seed: Seed for sampling discrete exogenous noise.
            keys: Name or number of each image, combined with the seed; its position by default.
                With ``abduction.keys``, answers are those of ``counterfactual``.
        """
        check_do(self.space, do)
        table = self.space.parse(attributes)
        downstream = self.graph.affected(do) - set(do)
        noise = self.scm.abduct(table, downstream, seed=seed, keys=keys)
        return Action(self.scm.act(table, do, noise), tuple(do), seed)

    def save(self, path: str | os.PathLike[str], storage: Storage = "float32") -> None:
        """Write the model to a folder, atomically; its kind must be registered.

        Args:
            path: The folder, which is created if missing; an older model in it is replaced.
            storage: 'float32', which keeps counterfactuals identical bit by bit, or 'float16',
                half the size. The structural causal model is always stored exactly.
        """
        save_model(self, path, storage)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, network: nn.Module | None = None) -> Self:
        """Read a model that :meth:`save` wrote, onto the CPU; refuse one of another class.

        Args:
            path: A folder, or the name of a model that comes with the package.
            network: Module the weights belong to, where the folder does not describe it.
        """
        model = load_model(path, network)
        if isinstance(model, cls):
            return model
        raise InputError(
            f"model {path}",
            expected=f"a {cls.__name__}",
            got=f"a {type(model).__name__}",
            do="call fcfg.load, which returns whichever model a folder holds",
        )


AnyModel: TypeAlias = CounterfactualModel[Any, Any, Any]
