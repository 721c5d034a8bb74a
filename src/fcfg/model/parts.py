"""What a model is made of: networks, a causal model, a judge, and where it came from."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from types import NoneType
from typing import Any, ClassVar, Self, Unpack

import torch
from jaxtyping import Float
from torch import Tensor, nn

from fcfg.causal.attributes import AttributeSpace
from fcfg.causal.graph import CausalGraph
from fcfg.causal.scm import StructuralCausalModel
from fcfg.judge import AttributeJudge, Reading
from fcfg.model.answers import Plan, Preparation, Traits
from fcfg.model.card import Facts, write_card
from fcfg.model.thresholds import Thresholds
from fcfg.storage import Storage, load_model, read_words, save_model
from fcfg.storage.hub import CARD, HubName
from fcfg.support.errors import InputError, check_is, check_keywords
from fcfg.support.images import ImagesLike, pixel_range_is_known, read_images


class AbstractModel(ABC):
    """A model of images and their attributes, with everything but its answers."""

    kind: str  #: such as 'diffusion' or 'hvae', in files and reports
    traits: ClassVar[Traits] = Traits()  #: what its answers have
    channels: int  #: number of image channels
    size: int | None  #: height and width of the training images; None if the model does not know
    stride: int = 1  #: number that every side of an image must be divisible by
    dimensions: int = 2  #: axes of an image beside its channels

    def __init__(
        self,
        scm: StructuralCausalModel,
        *,
        judge: nn.Module | None = None,
        provenance: Mapping[str, Any] | None = None,
    ) -> None:
        check_is("model, scm", scm, StructuralCausalModel, "a fcfg.StructuralCausalModel")
        check_is("judge", judge, (nn.Module, NoneType), "a fcfg.AttributeJudge, or None")
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
        return next(self.image_model.parameters(), torch.empty(0, device="cpu")).device

    @property
    def parameters(self) -> int:
        """Number of trained parameters of the image model."""
        return sum(parameter.numel() for parameter in self.image_model.parameters())

    def limits(self, targets: Collection[str], plan: Plan[Any]) -> dict[str, float]:
        """Return the largest ordinary signals of an answer; empty without thresholds of trust."""
        if self.thresholds is None or plan.sampling is None:
            return {}
        return self.thresholds.limits_for(targets, plan.setting, plan.sampling)

    def read_images(self, images: ImagesLike, **options: Any) -> Float[Tensor, "image channel *_"]:
        """Return images as a tensor; by default they must have the size of the training images."""
        shape = {"channels": self.channels, "stride": self.stride, "dimensions": self.dimensions}
        wanted: dict[str, Any] = {"size": self.size, **shape, **options}
        return read_images(images, **wanted)

    def read(self, images: ImagesLike) -> Reading | None:
        """Read the attributes of images by the judge, as in :meth:`abduct`; None without one."""
        if not isinstance(self.judge, AttributeJudge):
            return None
        with pixel_range_is_known():
            return self.judge.read(images)

    def to(self, device: torch.device | str) -> Self:
        """Move the networks; the causal model stays on the CPU."""
        self.image_model.to(device)
        if self.judge is not None:
            self.judge.to(device)
        return self

    def prepare(self, precision: str = "auto", **how: Unpack[Preparation]) -> Self:
        """Choose how the network computes, where the model offers a choice.

        Args:
            precision: 'float32', 'tf32', 'bf16', or 'auto': tf32 on a GPU, float32 on a CPU.
            **how: Compilation and CUDA graphs, see :class:`fcfg.model.Preparation`.
        """
        check_keywords(self.prepare, how, Preparation.__annotations__)
        return self

    def fitting_rows(self, size: tuple[int, ...]) -> int:
        """Return how many network rows per call suit the device, for images of this size."""
        return 256

    def save(self, path: str | os.PathLike[str], storage: Storage = "float32") -> None:
        """Write the model to a folder, as :func:`fcfg.save` does."""
        save_model(self, path, storage)

    def push_to_hub(
        self,
        name: str,
        *,
        results: str | os.PathLike[str] | None = None,
        license: str | None = None,
        private: bool = False,
        storage: Storage = "float32",
    ) -> str:
        """Put the model on the Hugging Face hub, with a card; return the name of this version.

        Args:
            name: 'hf://OWNER/NAME', or 'hf://OWNER/NAME@BRANCH'.
            results: The file ``table.csv`` of a report about it, whose numbers the card shows.
            license: Identifier of its licence, such as 'mit'.
            private: Whether only you may read it, if it is new.
            storage: As in :meth:`save`.
        """
        hub = HubName.of(name)
        own = None if self.folder is None else self.folder / CARD
        facts = Facts(
            kind=self.kind,
            parameters=self.parameters,
            size=self.size,
            data=self.provenance.get("training", {}).get("data", {}).get("format", "images"),
            attributes=self.space.names,
            arrows=[(a, b) for b, parents in self.graph.parents.items() for a in parents],
            page=own.read_text("utf-8") if own is not None and own.exists() else None,
        )
        card = write_card(facts, hub, None if results is None else Path(results), license)
        with TemporaryDirectory() as folder:
            self.save(folder, storage)
            (Path(folder) / CARD).write_text(card, "utf-8", newline="\n")
            return str(hub.upload(Path(folder), private=private))

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, network: nn.Module | None = None) -> Self:
        """Read a model, as :func:`fcfg.load` does; refuse one of another class."""
        model = load_model(path, network)
        if isinstance(model, cls):
            return model
        raise InputError(
            f"model {path}",
            expected=f"a {cls.__name__}",
            got=f"a {type(model).__name__}",
            do="call fcfg.load, which returns whichever model a folder holds",
        )
