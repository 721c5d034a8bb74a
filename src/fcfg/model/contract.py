"""The contract of every model that answers what-ifs."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Collection, Generator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar, Unpack

import numpy as np
from torch import Tensor, nn

from fcfg.causal.intervention import Intervention
from fcfg.causal.scm import Keys
from fcfg.model.answers import (
    AbstractAbduction,
    AbstractCounterfactual,
    Action,
    BackKeys,
    Factual,
    Options,
    Plan,
    Run,
    Work,
    check_do,
)
from fcfg.model.inputs import AttributesLike, keyed, model_pixels, read_factual
from fcfg.model.parts import AbstractModel
from fcfg.sampling import OnStep, SamplingLike
from fcfg.sheet import figure
from fcfg.storage import Storage, load_model, save_model
from fcfg.support.errors import InputError, check_batch_size, check_is, check_keywords
from fcfg.support.images import ImagesLike
from fcfg.support.pictures import SUFFIXES
from fcfg.support.progress import steps_shown
from fcfg.support.tables import TableLike

AbductionT = TypeVar("AbductionT", bound=AbstractAbduction)
SettingT = TypeVar("SettingT")
AnswerT = TypeVar("AnswerT", bound=AbstractCounterfactual)


class CounterfactualModel(AbstractModel, Generic[AbductionT, SettingT, AnswerT]):
    """A model of images and their attributes that answers what-ifs.

    A *setting* is what a user chooses about an answer: a guidance, or a temperature. Its text form
    names it in result files and on the command line; :meth:`parse_setting` reads it, and ``repr``
    writes it.

    A kind of models says how it plans (:meth:`plan`), infers (:meth:`infer`) and answers
    (:meth:`answer`); reading, checking and reporting of progress are the same for all. It is made
    of an attribute model, maybe with a judge and a description of how it was made.
    """

    inferred: ClassVar[type[AbstractAbduction]]  #: class of what :meth:`infer` returns
    setting: ClassVar[type[Any]]  #: class of settings, whose ``parse`` reads their text form
    heads: ClassVar[tuple[str, ...]] = ()  #: first words of it, by which experiments know the kind

    def parse_setting(self, text: str) -> SettingT:
        """Read the text form of a setting; every model knows 'none', the baseline."""
        return self.setting.parse(text)

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
    def infer(self, factual: Factual, plan: Plan[SettingT], run: Run) -> AbductionT:
        """Infer what images have beside their attributes."""

    @abstractmethod
    def answer(
        self, abduction: AbductionT, action: Action, plan: Plan[SettingT], run: Run
    ) -> AnswerT:
        """Make images of an abduction under counterfactual attributes of the same images."""

    def restore(
        self, factual: Factual, plan: Plan[SettingT], inferred: Mapping[str, Tensor]
    ) -> AbductionT | None:
        """Return an abduction from :attr:`AbstractAbduction.inferred`; None if that is not enough.

        A hook for models whose abductions are worth keeping: their plans say as what.
        """
        return None

    def plan_for(
        self, abduction: AbductionT, targets: Collection[str], setting: SettingT | None
    ) -> Plan[SettingT]:
        """Return the plan of a prediction; a hook for models whose abductions decide on it."""
        return self.plan(targets, setting)

    def abduct(
        self,
        images: ImagesLike,
        attributes: AttributesLike,
        *,
        plan: Plan[SettingT] | None = None,
        **options: Unpack[Options],
    ) -> AbductionT:
        """Infer what images have beside their attributes.

        Args:
            images: Floats in [-1, 1], or pictures, paths or bytes, see :mod:`fcfg.support.images`.
            attributes: Columns by name, a data frame, rows, or 'auto': the judge reads them.
            plan: Result of :meth:`plan`, for whose answers the abduction is made.
            **options: Keys and sizes of the images, rows per call, callback and bar, see
                :class:`fcfg.model.Options`.
        """
        check_keywords(self.abduct, options, Options.__annotations__)
        factual, work = read_factual(self, images, attributes, **options)
        plan = self.plan(()) if plan is None else plan
        with _working(1, 0, 1, **work) as run:
            return self.infer(factual, plan, run)

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

    def predict(
        self,
        abduction: AbductionT,
        action: Action,
        plan: Plan[SettingT] | SettingT | None = None,
        /,
        **work: Unpack[Work],
    ) -> AnswerT:
        """Make images of an abduction under counterfactual attributes.

        Args:
            abduction: Result of :meth:`abduct`, which can be reused for every question.
            action: Result of :meth:`act`.
            plan: Result of :meth:`plan`, or a setting; by default that of the model.
            **work: Rows per call, callback and bar, see :class:`fcfg.model.Work`.
        """
        check_keywords(self.predict, work, Work.__annotations__)
        check_is("abduction", abduction, self.inferred, "the result of model.abduct")
        check_is("action", action, Action, "the result of model.act")
        if not isinstance(plan, Plan):
            plan = self.plan_for(abduction, action.targets, plan)
        own, table, targets = action.attributes, abduction.attributes, action.targets
        count, wanted = (len(next(iter(columns.values()))) for columns in (own, table))
        kept = set(self.space.names) - self.graph.affected(targets)
        if count != wanted or not all(np.array_equal(own[name], table[name]) for name in kept):
            raise InputError(
                "action",
                expected=f"attributes for the {wanted} images of the abduction",
                got=f"{count} other ones",
                do="make both from the same images",
            )
        with _working(0, 1, plan.rows, **work) as run:
            return self.answer(abduction, action, plan, run)

    def counterfactual(
        self,
        images: ImagesLike,
        attributes: AttributesLike,
        do: Mapping[str, Intervention],
        *,
        plan: Plan[SettingT] | Mapping[str, Any] | None = None,
        seed: int = 0,
        **options: Unpack[Options],
    ) -> AnswerT:
        """What would these images look like had the attributes been different?

        Arguments are those of :meth:`abduct` and :meth:`act`; a ``plan`` is that of :meth:`plan`,
        or arguments for it. A model may override it to take these arguments as its own.
        """
        check_keywords(self.counterfactual, options, Options.__annotations__)
        # Cheap checks come first, so that a bad question fails before hours of work.
        factual, work = read_factual(self, images, attributes, do, **options)
        action = self.act(factual.attributes, do, seed=seed, keys=factual.keys)
        if not isinstance(plan, Plan):
            plan = self.plan(action.targets, **({} if plan is None else plan))
        return self._answer(factual, action, plan, **work)

    def reverse(self, pair: AnswerT, *, keys: BackKeys = "same", **work: Unpack[Work]) -> AnswerT:
        """Go back to the factual attributes, from the clamped images, by the same plan.

        ``pair`` is the result of :meth:`predict` or :meth:`counterfactual`. By default, random
        numbers are those of the way there. They follow from the keys of the factual images, which
        a recipient of the answers does not have; ``None`` draws them anew, by a digest of the
        pixels that go back.
        """
        check_keywords(self.reverse, work, Work.__annotations__)
        check_is("pair", pair, AbstractCounterfactual, "the result of model.counterfactual")
        there = pair.abduction
        own = there.keys if isinstance(keys, str) and keys == "same" else keys
        factual = keyed(pair.images, pair.attributes, own)
        action = replace(pair.action, attributes=there.attributes)
        return self._answer(factual, action, pair.plan, **work)

    def _answer(
        self, factual: Factual, action: Action, plan: Plan[SettingT], **work: Unpack[Work]
    ) -> AnswerT:
        """Abduct and predict, with one bar."""
        with _working(plan.abduction_rows, plan.rows, plan.rows, **work) as run:
            return self.answer(self.infer(factual, plan, run), action, plan, run)

    def _repr_html_(self) -> str | None:
        """Show the model in a notebook, with the pictures that come with it."""
        files = [] if self.folder is None else sorted(self.folder.glob("samples/*"))
        paths = [path for path in files if path.suffix.lower() in SUFFIXES]
        if not paths or self.size is None or self.channels not in (1, 3):
            return None
        fit = model_pixels(self)
        return figure({"samples": self.read_images(paths, fit=fit)}, repr(self))


AnyModel: TypeAlias = CounterfactualModel[Any, Any, Any]


def save(model: AnyModel, path: str | os.PathLike[str], storage: Storage = "float32") -> None:
    """Write a model to a folder, atomically; its kind must be registered.

    Args:
        model: The model. Of a network that is not a :class:`fcfg.UNet`, only the weights are
            stored, and :func:`load` needs the module.
        path: The folder, which is created if missing; an older model in it is replaced.
        storage: 'float32', which keeps counterfactuals identical bit by bit, or 'float16', half
            the size. The structural causal model is always stored exactly.
    """
    known = "a fcfg.CounterfactualPipeline or another fcfg.CounterfactualModel"
    check_is("model", model, CounterfactualModel, known)
    save_model(model, path, storage)


def load(path: str | os.PathLike[str], *, network: nn.Module | None = None) -> AnyModel:
    """Read a model that :func:`save` wrote, of whichever kind, onto the CPU.

    Args:
        path: A folder, or the name of a model that comes with the package (see
            :func:`fcfg.storage.shipped`); a folder of that name is ``./name``.
        network: The module the weights belong to, where it is not a
            :class:`fcfg.diffusion.networks.UNet`.
    """
    return load_model(path, network)


@contextmanager
def _working(
    up: int,
    down: int,
    least: int,
    *,
    batch_size: int = 256,
    on_step: OnStep | None = None,
    progress: bool = True,
) -> Generator[Run]:
    """Check the rows per call, and show an abduction and a prediction with these network rows."""
    check_batch_size(batch_size, least)
    with steps_shown(on_step, progress, up, down) as report:
        yield Run(batch_size, report)
