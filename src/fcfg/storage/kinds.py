"""Kinds of models: what a folder of each holds, by the name that its ``config.json`` has."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any, ClassVar, Generic, Literal, Protocol, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Field
from torch import nn

from fcfg.causal.attributes import AttributeSpace
from fcfg.causal.scm import StructuralCausalModel
from fcfg.diffusion.networks import JudgeConfig
from fcfg.storage.beside import Number, StoredRecord
from fcfg.support.errors import InputError, short

FORMAT = 2
Storage: TypeAlias = Literal["float32", "float16"]
ImageModelT = TypeVar("ImageModelT", bound=nn.Module)
ModelT = TypeVar("ModelT", bound="StorableModel")

#: Modules that register kinds when they are imported; their rooms may be missing.
_MODULES = ("fcfg.pipeline.counterfactual", "fcfg.pipeline.foreign", "fcfg.rivals.models")


class ModelConfig(BaseModel, Generic[ImageModelT]):
    """Contents of ``config.json`` of a model: everything that is not a tensor.

    A subclass describes one kind of models. It adds the fields that their image model needs, and
    says how to get them from it and back.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    records: ClassVar[Mapping[str, type[StoredRecord]]] = {}
    """Records beside the weights, by the attribute of the model that holds them, or None."""

    format: int = Field(ge=1)  #: of the folder; readers refuse a newer one
    fcfg: str  #: version that wrote it
    storage: Storage  #: of the weights of networks and judge
    attributes: dict[str, dict[str, Any]]
    graph: dict[str, list[str]]
    mechanisms: dict[str, list[str]]  #: node to the parents its mechanism was fitted on
    judge: JudgeConfig | None
    factors: dict[str, tuple[Number, Number]] = Field(default_factory=dict)
    """Mean and standard deviation of those that the judge reads."""
    files: dict[str, str]  #: part to file name
    network: Any  #: shape of the image model, or the name of a user-defined class
    provenance: dict[str, Any]
    digest: str | None = None  #: of all other fields; missing in older folders
    kind: str

    @classmethod
    @abstractmethod
    def describe(cls, image_model: ImageModelT) -> dict[str, Any]:
        """Return ``network`` and the fields that only this kind has."""

    @abstractmethod
    def build(self, space: AttributeSpace, network: nn.Module | None) -> ImageModelT:
        """Return the image model that the fields describe; its weights are read later."""

    @classmethod
    def networks(cls, image_model: ImageModelT) -> dict[str, nn.Module]:
        """Return the modules that have a file of weights, by the name of the part."""
        return {"network": image_model}


class StorableModel(Protocol):
    """What a folder needs to know of a model, beside the records of its kind."""

    kind: str
    scm: StructuralCausalModel
    judge: nn.Module | None
    provenance: dict[str, Any]

    @property
    def image_model(self) -> nn.Module: ...


@dataclass(frozen=True)
class Kind:
    """A kind of models."""

    config: type[ModelConfig[Any]]  #: what a folder holds
    model: type[Any]  #: class of the models


_KINDS: dict[str, Kind] = {}


def register_kind(config: type[ModelConfig[Any]]) -> Callable[[type[ModelT]], type[ModelT]]:
    """Class decorator that lets models of a class be saved, and lets :func:`fcfg.load` find them.

    Their kind is the class attribute ``kind``. The class is called as ``Model(image_model, scm,
    judge=judge, provenance=provenance)``; the config describes its folders.
    """

    def register(model: type[ModelT]) -> type[ModelT]:
        taken = _KINDS.get(model.kind)
        if taken is not None and _place(taken.model) != _place(model):
            raise InputError(
                f"kind '{model.kind}'",
                expected="a name that is not taken",
                got=f"that of {_place(taken.model)}",
                do="choose another name",
            )
        _KINDS[model.kind] = Kind(config, model)  # a notebook may define a class again
        return model

    return register


def _place(model: type[Any]) -> str:
    return f"{model.__module__}.{model.__qualname__}"


def find_kind(name: object, subject: str) -> Kind:
    """Return a kind; refuse one that is not registered, with a subject for the message."""
    if str(name) not in _KINDS:
        _import_modules()
    if not isinstance(name, str) or name not in _KINDS:
        raise InputError(
            subject,
            expected=f"a model of kind {' or '.join(sorted(_KINDS))}",
            got=short(name),
            do="import the module that registers it with fcfg.storage.register_kind",
        )
    return _KINDS[name]


def find_setting(head: str) -> type[Any] | None:
    """Return the class of the settings whose text form begins with a word, if a kind has them."""
    _import_modules()
    return next((k.model.setting for k in _KINDS.values() if head in k.model.heads), None)


def _import_modules() -> None:
    for module in _MODULES:
        if find_spec(module.rpartition(".")[0]) is not None:
            import_module(module)
