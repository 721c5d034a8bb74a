"""The contract of every model that answers what-ifs."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeAlias, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from fcfg.causal.attributes import AttributeSpace, Table
from fcfg.causal.graph import CausalGraph
from fcfg.causal.intervention import Intervention
from fcfg.causal.scm import Keys, StructuralCausalModel
from fcfg.judge import AttributeJudge, Reading
from fcfg.model.answers import (
    AbstractAbduction,
    AbstractCounterfactual,
    Action,
    BackKeys,
    Plan,
    Traits,
    check_do,
    keys_back,
)
from fcfg.model.inputs import AttributesLike, model_pixels, read_factual
from fcfg.model.thresholds import Thresholds
from fcfg.sampling import OnStep, SamplingLike
from fcfg.sheet import figure
from fcfg.storage import Storage, load_model, read_words, save_model
from fcfg.support.errors import InputError, check_batch_size, check_is
from fcfg.support.images import (
    ImagesLike,
    image_keys,
    known_images,
    pixel_range_is_known,
    read_images,
)
from fcfg.support.pictures import SUFFIXES
from fcfg.support.progress import steps_shown
from fcfg.support.tables import TableLike

AbductionT = TypeVar("AbductionT", bound=AbstractAbduction)
SettingT = TypeVar("SettingT")
AnswerT = TypeVar("AnswerT", bound=AbstractCounterfactual)


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

    kind: str  #: such as 'diffusion' or 'hvae', in files and reports
    traits: ClassVar[Traits] = Traits()  #: what its answers have

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
        self.precision: str | None = None  #: of the network, once :meth:`prepare` chose one
        self.compiled = False  #: whether :meth:`prepare` had the network compiled
        self.thresholds: Thresholds | None = None  #: of trust, see :mod:`fcfg.trust`
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

    @property
    def stride(self) -> int:
        """Number that height and width must be divisible by; a hook for networks with one."""
        return 1

    @abstractmethod
    def parse_setting(self, text: str) -> SettingT:
        """Read the text form of a setting; every model knows 'none', the baseline."""

    @abstractmethod
    def plan(
        self,
        targets: Collection[str],
        setting: SettingT | None = None,
        *,
        anchor: bool | None = None,
        sampling: SamplingLike = "default",
    ) -> Plan[SettingT]:
        """Return how a question is answered, resolved once; defaults are those of the model.

        Args:
            targets: Attributes intervened on.
            setting: The setting, if given.
            anchor: Whether to anchor; by default as the setting says. Refused where there is no
                path to anchor.
            sampling: Solver, grid and steps, of models whose traits have steps.
        """

    @abstractmethod
    def abduct(
        self,
        images: ImagesLike,
        attributes: AttributesLike,
        *,
        plan: Plan[SettingT] | None = None,
        keys: Keys | None = None,
        any_size: bool = False,
        resize: bool = False,
        batch_size: int = 256,
        on_step: OnStep | None = None,
        progress: bool = True,
    ) -> AbductionT:
        """Infer what images have beside their attributes.

        Args:
            images: Floats in [-1, 1], or pictures, paths or bytes, see :mod:`fcfg.support.images`.
            attributes: Columns by name, a data frame, rows, or 'auto': the judge reads them.
            plan: Result of :meth:`plan`, for whose answers the abduction is made.
            keys: Name or number of each image, from which its random numbers follow; by default a
                digest of its pixels.
            any_size: Whether to accept images of another size than the model was trained at.
            resize: Whether to make pictures fit as in training, see :func:`model_pixels`.
            batch_size: Largest number of network rows per call; bounds the memory.
            on_step: Callback invoked after every step, with the share that is done.
            progress: Whether to show a bar if it takes seconds, without ``on_step``.
        """

    def restore(
        self,
        images: Float[Tensor, "batch channel height width"],
        attributes: Table,
        keys: Keys,
        plan: Plan[SettingT],
        inferred: Mapping[str, Tensor],
    ) -> AbductionT | None:
        """Return an abduction from :attr:`AbstractAbduction.inferred`; None if that is not enough.

        A hook for models whose abductions are worth keeping: their plans say as what.
        """
        return None

    @abstractmethod
    def predict(
        self,
        abduction: AbductionT,
        action: Action,
        plan: Plan[SettingT] | SettingT | None = None,
        /,
        *,
        batch_size: int = 256,
        on_step: OnStep | None = None,
        progress: bool = True,
    ) -> AnswerT:
        """Make images of an abduction under counterfactual attributes.

        Args:
            abduction: Result of :meth:`abduct`, which can be reused for every question.
            action: Result of :meth:`act`.
            plan: Result of :meth:`plan`, or a setting; by default that of the model.
            batch_size: Largest number of network rows per call.
            on_step: Callback invoked after every step.
            progress: Whether to show a bar.
        """

    def counterfactual(
        self,
        images: ImagesLike,
        attributes: AttributesLike,
        do: Mapping[str, Intervention],
        *,
        plan: Plan[SettingT] | Mapping[str, Any] | None = None,
        seed: int = 0,
        keys: Keys | None = None,
        any_size: bool = False,
        resize: bool = False,
        batch_size: int = 256,
        on_step: OnStep | None = None,
        progress: bool = True,
    ) -> AnswerT:
        """What would these images look like had the attributes been different?

        Arguments are those of :meth:`abduct` and :meth:`act`; a ``plan`` is that of :meth:`plan`,
        or arguments for it. A model may override it to take these arguments as its own.
        """
        # Cheap checks come first, so that a bad question fails before hours of work.
        x, table = read_factual(self, images, attributes, do, any_size=any_size, resize=resize)
        keys = image_keys(x) if keys is None else keys
        action = self.act(table, do, seed=seed, keys=keys)
        if not isinstance(plan, Plan):
            plan = self.plan(action.targets, **({} if plan is None else plan))
        return self._answer(x, table, keys, action, plan, batch_size, on_step, progress)

    def reverse(
        self,
        pair: AnswerT,
        *,
        keys: BackKeys = "same",
        batch_size: int = 256,
        on_step: OnStep | None = None,
        progress: bool = True,
    ) -> AnswerT:
        """Go back to the factual attributes, from the clamped images, by the same plan.

        ``pair`` is the result of :meth:`predict` or :meth:`counterfactual`. By default, random
        numbers are those of the way there. They follow from the keys of the factual images, which
        a recipient of the answers does not have; ``None`` draws them anew, by a digest of the
        pixels that go back.
        """
        check_is("pair", pair, AbstractCounterfactual, "the result of model.counterfactual")
        there, plan = pair.abduction, pair.plan
        keys = keys_back(keys, there.keys, pair.images)
        action = replace(pair.action, attributes=there.attributes)
        images, table = pair.images, pair.attributes
        return self._answer(images, table, keys, action, plan, batch_size, on_step, progress)

    def _answer(
        self,
        images: Float[Tensor, "batch channel height width"],
        attributes: Table,
        keys: Keys,
        action: Action,
        plan: Plan[SettingT],
        batch_size: int,
        on_step: OnStep | None,
        progress: bool,
    ) -> AnswerT:
        """Abduct and predict, with one bar."""
        check_batch_size(batch_size, plan.rows)
        with steps_shown(on_step, progress, plan.abduction_rows, plan.rows) as report:
            with known_images():
                abduction = self.abduct(
                    images,
                    attributes,
                    plan=plan,
                    keys=keys,
                    any_size=True,
                    batch_size=batch_size,
                    on_step=report,
                )
            return self.predict(abduction, action, plan, batch_size=batch_size, on_step=report)

    def _repr_html_(self) -> str | None:
        """Show the model in a notebook, with the pictures that come with it."""
        folder = None if self.folder is None else self.folder / "samples"
        files = [] if folder is None or not folder.is_dir() else sorted(folder.iterdir())
        paths = [path for path in files if path.suffix.lower() in SUFFIXES]
        if not paths or self.size is None or self.channels not in (1, 3):
            return None
        fit = model_pixels(self)
        return figure({"samples": read_images(paths, channels=self.channels, fit=fit)}, repr(self))

    def read(self, images: ImagesLike) -> Reading | None:
        """Read the attributes of images with the judge; None without one.

        Args:
            images: Images, as in :meth:`abduct`.
        """
        if not isinstance(self.judge, AttributeJudge):
            return None
        with pixel_range_is_known():
            return self.judge.read(images)

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
        return read_words(self.folder, self.space)

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
            precision: 'float32', 'tf32', 'bf16', or 'auto': tf32 on a GPU, float32 on a CPU.
            compile: Whether to compile the network, which takes a while at the first call.
            batch_size: Largest compiled batch; use the number of images per call to avoid padding.
            cuda_graphs: Whether to replay steps as CUDA graphs, with few images on a GPU.
        """
        return self

    def fitting_rows(self, size: tuple[int, int]) -> int:
        """Return how many network rows per call suit the device, for images of this size."""
        return 256

    def act(
        self,
        attributes: TableLike,
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
