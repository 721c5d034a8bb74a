"""Files beside the weights of a model, as JSON: records about it, and words for its attributes."""

from __future__ import annotations

import json
import os
import warnings
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, RootModel
from torch import nn

from fcfg.causal.attributes import AttributeSpace, Binary
from fcfg.support.config_files import parse_json, read_text, validate
from fcfg.support.errors import InputError
from fcfg.support.files import write_atomically
from fcfg.support.hashing import digest_of, digest_of_values
from fcfg.version import __version__

WORDS = "words.json"  #: such as {"sex": ["female", "male"]}

_Kind = TypeVar("_Kind", bound=BaseModel)
Number = Annotated[float, Field(allow_inf_nan=False)]


class Record(BaseModel):
    """Values that JSON holds."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class StoredRecord(Record):
    """A record about a model, which holds for its weights only."""

    file: ClassVar[str]  #: name of the file
    noun: ClassVar[str]  #: in messages
    needs_judge: ClassVar[bool] = False  #: whether it holds for the weights of the judge, too

    format: Literal[1] = 1  #: of the record
    fcfg: str = __version__  #: version that made it
    model: str  #: digest of the weights, see :meth:`digest`

    @staticmethod
    def digest(*modules: nn.Module | None) -> str:
        """Return the digest of weights as they are after being stored as float16."""
        return digest_of(*(module for module in modules if module is not None), half=True)

    def to_bytes(self) -> bytes:
        """Return the content of the file."""
        values = self.model_dump(mode="json")
        values["digest"] = digest_of_values(values)
        return json.dumps(values, indent=1, ensure_ascii=False).encode()

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write the file to a folder, which is made if missing."""
        path = Path(folder) / self.file
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, self.to_bytes())
        return path

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Self:
        """Read what :meth:`save` wrote."""
        file = Path(path) / cls.file if Path(path).is_dir() else Path(path)
        subject = f"{cls.noun} {file}"
        text = read_text(file, subject, expected="a file that 'fcfg calibrate' wrote")
        do = "remove the file, and run 'fcfg calibrate' again"
        values = parse_json(text, subject, do=do)
        digest = values.pop("digest", None)
        record = validate(cls, values, subject)
        if digest != digest_of_values(values):
            expected = "the file that was written, with its digest"
            got = "an edited one" if digest else "one without, of an earlier version"
            raise InputError(subject, expected=expected, got=got, do=do)
        return record

    def check(self, space: AttributeSpace, subject: str) -> None:
        """Refuse values that a model with some attributes cannot have; by default none."""

    @classmethod
    def of_model(
        cls, folder: Path, image_model: nn.Module, judge: nn.Module | None
    ) -> Self | None:
        """Return the record of a model, if it has one; ignore that of other weights."""
        if not (folder / cls.file).exists():
            return None
        found = cls.read(folder)
        if found.model == cls.digest(image_model, judge if cls.needs_judge else None):
            return found
        warnings.warn(
            f"{cls.noun} {folder / cls.file}: made for other weights than those of the model, and "
            "ignored; run 'fcfg calibrate' again",
            stacklevel=4,  # the caller of load
        )
        return None


class _Words(RootModel[dict[str, tuple[str, str]]]):
    """Words for no and yes, by attribute."""


def read_beside(folder: Path | None, file: str, kind: type[_Kind]) -> _Kind | None:
    """Read a JSON file in the folder of a model; None if there is none."""
    if folder is None or not (folder / file).exists():
        return None
    subject = f"file {folder / file}"
    text = read_text(folder / file, subject, expected="JSON")
    return validate(kind, parse_json(text, subject, do="correct or remove it"), subject)


def read_words(folder: Path | None, space: AttributeSpace) -> dict[str, list[str]]:
    """Return words for no and yes of binary attributes: of a file, or names of values."""
    found = read_beside(folder, WORDS, _Words)
    words = {} if found is None else found.root
    space.check_known(words, WORDS)
    named = {a.name: list(a.levels) for a in space if isinstance(a, Binary) and a.levels}
    return named | {name: list(pair) for name, pair in words.items()}
