"""How image models are trained: one class for every ``kind`` that ``model:`` can have."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.resources import files
from importlib.resources.abc import Traversable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar

from fcfg.support.config_errors import validate
from fcfg.support.errors import InputError, check_among, short
from fcfg.training.sections import Optimisation

if TYPE_CHECKING:
    from torch import Tensor, nn

    from fcfg.causal.scm import StructuralCausalModel
    from fcfg.judge import AttributeJudge
    from fcfg.model import AnyModel
    from fcfg.training.config import TrainingConfig
    from fcfg.training.objectives import AbstractObjective
    from fcfg.training.run import Session

#: Modules that register kinds and presets when they are imported; their rooms may be missing.
_MODULES = ("fcfg.training.diffusion", "fcfg.rivals.training")
_KINDS: dict[str, type[ModelTraining]] = {}
_PRESETS: dict[str, Traversable] = {}


@dataclass(frozen=True)
class Part:
    """A network of a run that is trained by itself."""

    name: str  #: as in ``--part``
    key: str  #: where the configuration has its settings
    settings: Optimisation


class ModelTraining(Optimisation, ABC):
    """The training of an image model: its shape, its loss and its optimisation.

    Its fields are what ``model:`` may say in a configuration. To train a kind of your own, write a
    subclass and register it with :func:`register_training`. Modules that need torch are imported
    inside methods, so that a mistake in a configuration is found at once.
    """

    @property
    @abstractmethod
    def parts(self) -> tuple[Part, ...]:
        """The parts of the training, in order."""

    @abstractmethod
    def check(self, config: TrainingConfig) -> None:
        """Refuse settings that fit neither each other nor the data and attributes."""

    @abstractmethod
    def objective(
        self, config: TrainingConfig, *, channels_last: bool = False
    ) -> AbstractObjective:
        """Return a new image model, and the loss of its first part.

        Args:
            config: The whole configuration; its seed decides the weights.
            channels_last: Whether the weights lie so, which is faster on a GPU.
        """

    @abstractmethod
    def model(
        self,
        config: TrainingConfig,
        scm: StructuralCausalModel,
        judge: AttributeJudge | None,
        weights: Callable[[str], dict[str, Tensor] | None],
    ) -> AnyModel:
        """Assemble the model; parts without a checkpoint are new.

        Args:
            config: The whole configuration.
            scm: Causal model of the attributes.
            judge: The judge, if it is trained.
            weights: Returns the published weights of a part, if it has a checkpoint.
        """

    def part_objective(self, part: str, session: Session) -> AbstractObjective:
        """Return the loss of a part; that of the first part by default.

        Args:
            part: Name of the part.
            session: The run, with the data and all that was trained before.
        """
        on_gpu = session.device.type == "cuda"
        return self.objective(session.config, channels_last=on_gpu)

    def beside(self, objective: AbstractObjective) -> Mapping[str, nn.Module]:
        """Return modules that the number of parameters leaves out, by name; none by default."""
        return {}


TrainingT = TypeVar("TrainingT", bound=type[ModelTraining])


def register_training(kind: str) -> Callable[[TrainingT], TrainingT]:
    """Class decorator that lets ``model: {kind: KIND}`` name a subclass of ModelTraining."""

    def register(training: TrainingT) -> TrainingT:
        _KINDS[kind] = training
        return training

    return register


def register_presets(folder: Traversable) -> None:
    """Add the YAML files of a folder to the configurations of the package."""
    for entry in folder.iterdir():
        if entry.name.endswith(".yaml"):
            _PRESETS[entry.name.removesuffix(".yaml")] = entry


def preset_files() -> dict[str, Traversable]:
    """Return the configurations of the package, by name."""
    _import_modules()
    return dict(sorted(_PRESETS.items()))


def read_model(values: Mapping[str, Any]) -> ModelTraining:
    """Build the training of an image model from the section ``model:`` of a configuration."""
    _import_modules()
    kind = values.get("kind", "diffusion")
    if not isinstance(kind, str):
        raise InputError("model, kind", expected="a name", got=short(kind), do="quote it")
    check_among("model, kind", kind, tuple(_KINDS))
    return validate(_KINDS[kind], values, "model")


def _import_modules() -> None:
    if "portraits" not in _PRESETS:
        register_presets(files("fcfg.training") / "presets")
    for module in _MODULES:
        if find_spec(module.rpartition(".")[0]) is not None:
            import_module(module)
