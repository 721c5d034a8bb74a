"""Files that may come beside the weights of a model, such as words for its attributes."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, RootModel

from fcfg.causal.attributes import AttributeSpace, Binary
from fcfg.support.config_errors import validate
from fcfg.support.config_files import parse_json, read_text

WORDS = "words.json"  #: such as {"sex": ["female", "male"]}

_Kind = TypeVar("_Kind", bound=BaseModel)


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
