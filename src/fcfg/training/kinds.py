"""How networks are trained: the judge, and one class for every ``kind`` that ``model:`` can have.

These classes need no torch until they build a network, so that a mistake in a configuration is
found at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from importlib.resources import files
from importlib.resources.abc import Traversable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypeVar

from pydantic import BaseModel, Field, NonNegativeInt, PositiveFloat, PositiveInt

from fcfg.causal.attributes import AttributeSpace, Table
from fcfg.support.config_files import validate
from fcfg.support.errors import check_among, check_is
from fcfg.training.sections import Decay, Optimisation, Publish, Steps

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

    from fcfg.causal.scm import StructuralCausalModel
    from fcfg.datasets.base import AbstractData, OnProgress, Splits
    from fcfg.diffusion.networks import JudgeConfig
    from fcfg.judge import AttributeJudge
    from fcfg.training.objectives import AnyObjective, ReadingObjective

#: Mean and standard deviation of each factor behind the attributes.
Scales: TypeAlias = Mapping[str, tuple[float, float]]
#: Returns the weights of a part to publish; None before its first checkpoint.
WeightsOf: TypeAlias = "Callable[[str], dict[str, Tensor] | None]"

#: Modules that register kinds when they are imported, beside presets; rooms may be missing.
_MODULES = ("fcfg.training.diffusion", "fcfg.training.foreign", "fcfg.rivals.training")
_KINDS: dict[str, type[ModelTraining]] = {}


@dataclass(frozen=True)
class Inputs:
    """Attributes and images that the networks of a run are made for, and their weights' seed."""

    space: AttributeSpace
    channels: int
    size: int
    seed: int
    factors: Scales = field(default_factory=dict[str, tuple[float, float]])
    """Factors that a judge reads as well."""
    channels_last: bool = False  #: memory layout of weights, which is faster on a GPU
    dimensions: int = 2  #: axes of an image beside its channels

    @property
    def image(self) -> tuple[int, ...]:
        """Channels and size of an image."""
        return self.channels, *[self.size] * self.dimensions

    @property
    def pixels(self) -> dict[str, int]:
        """The shape of an image, as configurations of networks name it."""
        return {"channels": self.channels, "size": self.size}

    @contextmanager
    def seeded(self) -> Generator[None]:
        """Draw weights from the seed; other random numbers stay as they are."""
        import torch

        with torch.random.fork_rng():
            torch.manual_seed(self.seed)
            yield


class NetworkTraining(Optimisation, ABC):
    """The training of one network, from new weights on."""

    @abstractmethod
    def shape(self, inputs: Inputs) -> BaseModel:
        """Return the shape of the network; refuse settings that do not fit together."""

    @abstractmethod
    def build(self, inputs: Inputs) -> nn.Module:
        """Return a new network, whose weights follow from the seed."""

    @abstractmethod
    def objective(self, network: Any) -> AnyObjective:
        """Return the loss of a network."""

    def seen(self, inputs: Inputs) -> Inputs:
        """Return the inputs with the shape of what the network is trained on: pixels."""
        return inputs

    def encoded(
        self, splits: Splits, data: AbstractData, device: torch.device, on_progress: OnProgress
    ) -> Splits:
        """Return examples as the network is trained on them: as they are."""
        return splits


class JudgeTraining(NetworkTraining):
    """Training of the judge."""

    width: PositiveInt = 64  #: channels of the first stage; 64 is ResNet-18
    steps: Steps | None = 5000
    learning_rate: PositiveFloat = 1e-3
    weight_decay: float = Field(default=0.05, ge=0)
    warmup: NonNegativeInt = 100
    decay: Decay = "cosine"
    publish: Publish = "best"

    def shape(self, inputs: Inputs) -> JudgeConfig:
        from fcfg.diffusion.networks import JudgeConfig

        outputs = sum(inputs.space.widths) + len(inputs.factors)
        shape = {"channels": inputs.channels, "width": self.width, "outputs": outputs}
        return validate(JudgeConfig, shape | {"dimensions": inputs.dimensions}, "judge")

    def build(self, inputs: Inputs) -> AttributeJudge:
        from fcfg.diffusion.networks import Judge
        from fcfg.judge import AttributeJudge

        with inputs.seeded():
            return AttributeJudge(Judge(self.shape(inputs)), inputs.space, inputs.factors)

    def objective(self, network: AttributeJudge) -> ReadingObjective:
        from fcfg.training.objectives import ReadingObjective

        return ReadingObjective(network)


@dataclass(frozen=True)
class Part:
    """A network of a run that is trained by itself."""

    name: str  #: as in ``--part``
    key: str  #: where the configuration has its settings
    settings: Optimisation
    trained: NetworkTraining  #: whose network it trains

    def new_objective(self, inputs: Inputs) -> AnyObjective:
        """Return the loss of a new network."""
        return self.trained.objective(self.trained.build(inputs))


@dataclass(frozen=True, eq=False)
class Ground:
    """What a later part of an image model is built on."""

    network: nn.Module  #: of the first part, as it is published
    judge: AttributeJudge
    scm: StructuralCausalModel
    table: Table  #: attributes of the training images
    first_loss: Callable[[AnyObjective, int, int], float]
    """Loss on the first training images: of an objective, so many images, in batches."""


class ModelTraining(NetworkTraining, ABC):
    """The training of an image model: its shape, its loss and its optimisation.

    Its fields are what ``model:`` may say in a configuration. To train a kind of your own, write a
    subclass and register it with :func:`register_training`. Modules that need torch are imported
    inside methods.
    """

    @property
    @abstractmethod
    def parts(self) -> tuple[Part, ...]:
        """The parts of the training, in order; the first one trains the whole network."""

    trains: ClassVar[str]  #: kind of its models, as :func:`register_training` was told

    def published(self, weights: WeightsOf) -> dict[str, Tensor] | None:
        """Return the weights of the network; those of the first part by default."""
        return weights(self.parts[0].name)

    def later_objective(self, part: str, ground: Ground) -> AnyObjective:
        """Return the loss of a part after the first; kinds with several parts override this.

        Only the author of such a kind can see the error: no configuration leads to it.
        """
        raise NotImplementedError(f"{type(self).__name__} has no loss for its part '{part}'")

    def finished(self, network: Any) -> nn.Module:
        """Return the image model of a network that was trained: itself, by default."""
        return network

    def beside(self, network: Any) -> Mapping[str, nn.Module]:
        """Return modules that the number of parameters leaves out, by name; none by default."""
        return {}


TrainingT = TypeVar("TrainingT", bound=type[ModelTraining])


def register_training(kind: str) -> Callable[[TrainingT], TrainingT]:
    """Class decorator that lets ``model: {kind: KIND}`` name a subclass of ModelTraining."""

    def register(training: TrainingT) -> TrainingT:
        training.trains = kind
        _KINDS[kind] = training
        return training

    return register


def preset_files() -> dict[str, Traversable]:
    """Return the configurations of the package, by name."""
    rooms = [module.rpartition(".")[0] for module in _modules()]
    entries = [entry for room in rooms for entry in (files(room) / "presets").iterdir()]
    found = {entry.name.removesuffix(".yaml"): entry for entry in entries}
    return {name: found[name] for name in sorted(found)}


def read_model(values: Mapping[str, Any]) -> ModelTraining:
    """Build the training of an image model from the section ``model:`` of a configuration."""
    for module in _modules():
        import_module(module)
    kind = values.get("kind", "diffusion")
    check_is("model, kind", kind, str, "a name", do="quote it")
    check_among("model, kind", kind, tuple(_KINDS))
    return validate(_KINDS[kind], values, "model")


def _modules() -> list[str]:
    return [module for module in _MODULES if find_spec(module.rpartition(".")[0]) is not None]
