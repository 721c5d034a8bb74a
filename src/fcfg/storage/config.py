"""What a folder of one kind of model holds: the contents of its ``config.json``."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field
from torch import nn

from fcfg.causal.attributes import AttributeSpace
from fcfg.diffusion.networks import JudgeConfig
from fcfg.storage.stored_record import Number, StoredRecord
from fcfg.storage.weight_files import Storage

FORMAT = 2
ImageModelT = TypeVar("ImageModelT", bound=nn.Module)


class ModelConfig(BaseModel, Generic[ImageModelT]):
    """Contents of ``config.json`` of a model: everything that is not a tensor.

    A subclass describes one kind of models. It adds the fields that their image model needs, and
    says how to get them from it and back.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    version: ClassVar[int] = FORMAT  #: format of the folders of this kind
    records: ClassVar[Mapping[str, type[StoredRecord]]] = {}
    """Records beside the weights, by the attribute of the model that holds them, or None."""

    format: int = Field(ge=1)  #: of the folder; readers refuse a newer one
    fcfg: str  #: version that wrote it
    storage: Storage  #: of the weights of networks and judge
    attributes: dict[str, dict[str, Any]]
    graph: dict[str, list[str]]
    mechanisms: dict[str, list[str]]  #: node to the parents its mechanism was fitted on
    judge: JudgeConfig | None
    factors: dict[
        str, tuple[Number, Number]
    ] = {}  #: mean and standard deviation of those that the judge reads
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
